#!/usr/bin/env python
# coding: utf-8

# # Feature extraction for the tabular baseline
# Exported from features.ipynb

# In[1]:


import sys
import hashlib
import multiprocessing
from concurrent.futures import ThreadPoolExecutor

multiprocessing.set_start_method("fork")
N_ROWS = 20000
CHUNK = 500
PER_WORKER = "--pool-per-worker" in sys.argv
SERIAL = "--serial" in sys.argv


# In[2]:


# hashing is fast, but the column statistics like threads
pool = ThreadPoolExecutor(max_workers=4)


def column_stats(rows):
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:8]


# a first look at the data
head = list(pool.map(column_stats, [list(range(i, i + 10)) for i in range(12)]))
print(head[:3])


# In[3]:


def extract(start):
    global pool
    rows = list(range(start, min(start + CHUNK, N_ROWS)))
    parts = [rows[i::4] for i in range(4)]
    futures = [pool.submit(column_stats, part) for part in parts]
    return [future.result() for future in futures]


def fresh_pool():
    global pool
    if PER_WORKER:
        pool = ThreadPoolExecutor(max_workers=4)


# In[4]:


starts = range(0, N_ROWS, CHUNK)
if SERIAL:
    features = [extract(start) for start in starts]
else:
    with multiprocessing.Pool(2, initializer=fresh_pool) as workers:
        features = workers.map(extract, starts)


# In[5]:


print(len(features), "chunks")
