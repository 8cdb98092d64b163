"""Every SQL statement of the product: the journal (runs, leases, transfers), and the databases of service and sites.

Only the process of a run writes that run's rows. Others read them, and steer the run by requests that it polls.
"""
