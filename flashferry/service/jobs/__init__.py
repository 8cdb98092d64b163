"""Jobs: runs, probes, checks, plans and recoveries, each a process of its own that outlives the service.

A job is in the database before its process starts, and the process claims it by a file, so that nothing starts twice
even after a crash. Output and events are in the job's folder, `jobs/ID` in the state folder.
"""
