# shellcheck shell=bash
# sites/perlmutter/env.sh - modules and variables of Perlmutter
#
# Functions
#   ol_site_modules   load NERSC's PyTorch
#   ol_site_env       set the variables of the network and of HDF5, and the order of the GPUs
#
# Reads    SLURM_JOB_ID, CUDA_VISIBLE_DEVICES
# Needs    environment
# Sourcing it defines the functions above and does nothing else.

# saforem2/ezpz docs/notes, 2026-08-21; `pytorch` brings its own CUDA and NCCL with the plugin for Slingshot.
# For an environment of your own, load other modules or activate it in the job's `setup`.
ol_site_modules() {
  module load pytorch
}

ol_site_env() {
  # memhooks can deadlock with NCCL's plugin; userfaultfd is safe with it (NERSC/sc24-dl-tutorial, 2025-02-05).
  ol_environment_default FI_MR_CACHE_MONITOR userfaultfd
  # Lustre there refuses the locks that HDF5 asks for when it opens a file (NERSC/sc24-dl-tutorial, 2025-02-05).
  ol_environment_default HDF5_USE_FILE_LOCKING FALSE
  # GPU and NIC talk directly when they share a PCIe host bridge (NERSC/dl-at-scale-training, 2025-02-26).
  ol_environment_default NCCL_NET_GDR_LEVEL PHB
  # GPU 3 is nearest to the first cores, GPU 0 to the last (NERSC/sc24-dl-tutorial, 2025-02-05): each rank sees all four,
  # and device LOCAL_RANK of this order is the near one. Slurm's own order, which a batch script is given, is nobody's
  # choice; that srun leaves ours to the ranks is unverified. A job with a part of a node (shared) keeps what it has, and
  # so does a login node.
  if [[ -n ${SLURM_JOB_ID:-} && ${CUDA_VISIBLE_DEVICES-0,1,2,3} == 0,1,2,3 ]]; then
    export CUDA_VISIBLE_DEVICES=3,2,1,0
  fi
}
