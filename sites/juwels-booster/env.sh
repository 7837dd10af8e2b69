# shellcheck shell=bash
# sites/juwels-booster/env.sh - modules and variables of JUWELS Booster
#
# Functions
#   ol_site_modules   load JSC's CUDA and MPI
#   ol_site_env       set the variables of the network
#
# Source   interTwin-eu/itwinai, src/itwinai/slurm/system-base-scripts/juwels_pre_exec.sh, undated
# Needs    environment
# Sourcing it defines the functions above and does nothing else.

# Your own environment belongs into the job's `setup`, after these.
ol_site_modules() {
  local name
  for name in Stages/2025 GCC OpenMPI CUDA/12 MPI-settings/CUDA; do
    module load "$name" || return
  done
}

ol_site_env() {
  # The four cards of a node, one near each GPU (job scripts in public repositories; unverified).
  ol_environment_default UCX_NET_DEVICES mlx5_0:1,mlx5_1:1,mlx5_4:1,mlx5_5:1
}
