"""The working set: which files a call gets to see, and how they are put into it."""
