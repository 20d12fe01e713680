// Package slurm trains runs on a cluster, as job arrays of Slurm with one job per task.
//
// [Submit] finds the jobs that a store lacks, copies the program and a manifest of the jobs into the store, and submits
// an array. [Submission.Follow] watches it until the end. [Run] does both; it fits [runs.Options].Submit. Each task of
// the array calls [Worker.Run].
//
// All state is in the store and in Slurm's queue. A follower may therefore stop and come back, and several users may
// submit the same jobs: jobs that are already queued are not submitted again. If two tasks train the same run
// nevertheless, the lock of the run makes one of them wait, and it then reads the result.
//
// The store must be on a file system that all nodes share. NFS works: a lock (flock) is held by the server there, since
// Linux 2.6.12 as a byte-range lock, and therefore excludes other machines. When a machine dies, the server releases
// its locks at the end of their lease (NFS 4), or when the machine restarts (NFS 3). Cached names are refreshed before
// a run counts as missing; see [runs.Store.Refresh]. A mount without locks between machines (nolock, local_lock) does
// not work; the probe detects it. Users who share a store need a common group, and a umask that lets the group write,
// such as 002.
//
//	jobs := runs.Jobs(specs...)
//	err := slurm.Run(ctx, store, jobs, slurm.Options{Partition: "gpu", Gres: "gpu:1", Time: "2:00:00"})
package slurm
