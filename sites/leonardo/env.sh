# shellcheck shell=bash
# sites/leonardo/env.sh - modules and variables of Leonardo
#
# Functions
#   ol_site_modules   nothing: put `module load profile/deeplrn cineca-ai`, or your own environment, into the job's `setup`
#   ol_site_env       set the variables of the network
#
# Needs    environment
# Sourcing it defines the functions above and does nothing else.

ol_site_modules() {
  :
}

ol_site_env() {
  # The InfiniBand cards and no Ethernet one (a job script of CINECA's staff in a public repository, 2024; unverified).
  ol_environment_default NCCL_IB_HCA mlx5
}
