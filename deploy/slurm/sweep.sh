#!/bin/sh
# A sweep in eight parts, one a task of an array: sbatch deploy/slurm/sweep.sh EXPERIMENT.toml FOLDER
# FOLDER is one that all nodes have. Afterwards: holdup history merge FOLDER/shard-*.db --store FOLDER/all.db
#SBATCH --job-name=holdup-sweep
#SBATCH --array=1-8
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu

experiment=${1:?which experiment: sbatch sweep.sh EXPERIMENT.toml FOLDER}
folder=${2:?where to: sbatch sweep.sh EXPERIMENT.toml FOLDER}
shards=${SLURM_ARRAY_TASK_COUNT:?this is a task of an array: start it with sbatch}

# Requeued after it was killed, the same command goes on with its part.
exec "${HOLDUP:-holdup}" run "$experiment" --shard "$SLURM_ARRAY_TASK_ID/$shards" --store "$folder/shard-$SLURM_ARRAY_TASK_ID.db" ${HOLDUP_OPTIONS:-}
