from barnabas.replication.leader.leader_replica cimport LeaderReplica


cdef class Delayed:
    cdef public object consumers, followers, produces, deletions

    cpdef on_append(self, LeaderReplica leader)
