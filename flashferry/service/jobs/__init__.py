"""Jobs: what the service has run, each a process of its own that outlives it: runs, probes, checks, plans, recoveries.

A job stands in the database before anything is started, and its process makes sure by a file that it is the only one;
so whoever is killed at whatever moment, nothing is started twice. What a job's verb prints, and the events of its run,
are files of the job's folder, `jobs/ID` in the state folder; the service finds all of it again by them.
"""
