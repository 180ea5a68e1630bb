#!/usr/bin/env bash
# A Slurm of one node on loopback, for tests: scripts/slurm.sh start|stop FOLDER. Needs root and Debian's slurm-wlm and
# munge. Two partitions: `cpu`, whose jobs give way (they are queued again), and `urgent`. Use it with
# export SLURM_CONF=FOLDER/slurm.conf
set -euo pipefail
folder=$(mkdir -p "$2" && cd "$2" && pwd)
export SLURM_CONF=$folder/slurm.conf
host=$(hostname -s)

start() {
    mkdir -p "$folder"/{run,log,state,spool}
    cat > "$SLURM_CONF" <<CONF
ClusterName=lab
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.socket,cred_expire=5
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=30
MinJobAge=300
SlurmdTimeout=60
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=cpu Nodes=$host Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=urgent Nodes=$host MaxTime=INFINITE PriorityTier=2 PreemptMode=OFF State=UP
CONF
    (umask 077 && dd if=/dev/urandom of="$folder/run/munge.key" bs=128 count=1 status=none)
    munged --force --key-file="$folder/run/munge.key" --socket="$folder/run/munge.socket" --pid-file="$folder/run/munged.pid" \
        --log-file="$folder/log/munged.log" --seed-file="$folder/run/munged.seed"
    slurmctld
    slurmd -N "$host"
    for _ in $(seq 60); do
        [ "$(sinfo --noheader --partition=cpu --format=%T 2>/dev/null)" = idle ] && return
        sleep 0.5
    done
    echo "Slurm does not come up: see $folder/log/" >&2
    tail -n 5 "$folder"/log/*.log >&2
    return 1
}

stop() {
    scancel --partition=cpu,urgent 2>/dev/null || true
    for name in slurmd slurmctld munged; do
        [ -f "$folder/run/$name.pid" ] && kill "$(cat "$folder/run/$name.pid")" 2>/dev/null || true
        for _ in $(seq 40); do [ -f "$folder/run/$name.pid" ] || break; sleep 0.25; done
    done
}

case $1 in start) start ;; stop) stop ;; *) echo "usage: $0 start|stop FOLDER" >&2; exit 2 ;; esac
