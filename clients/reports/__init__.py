"""Reports: what a run is told as, on terminals, in files and for programs.

`load` makes `facts` of the store's rows; every other module turns these facts into one kind of report.
"""
