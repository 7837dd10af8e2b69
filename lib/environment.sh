# shellcheck shell=bash
# lib/environment.sh - the variables that trainers and their libraries need, whatever the site
#
# Functions
#   ol_environment_job                   all of it, as a job's settings have it; once MASTER_ADDR is known
#   ol_environment_default NAME VALUE    export NAME, unless the caller has set it (empty counts as set)
#   ol_environment_offline               nothing asks the internet, which compute nodes do not reach
#   ol_environment_online PROXY NO_PROXY the site's proxy, if there is one
#   ol_environment_caches FOLDER         compilers keep their results in FOLDER, on the node
#   ol_environment_threads N             threads a rank; 0 leaves it to the library
#   ol_environment_wandb ID              every job of a run writes to one W&B run
#   ol_environment_flight PREFIX         NCCL's flight recorder writes to PREFIX and the rank, when asked or at a time-out
#   ol_environment_deterministic         same input, same bits, as far as variables can do it
#   ol_environment_gpu ARCH              known faults of a kind of GPU
#   ol_environment_network IPV4 NAME...  IPv4, on those of the interfaces NAME that this host has
#   ol_environment_master HOST           print the one IPv4 address by which other nodes reach HOST
#   ol_environment_interface IPV4        print the name of this host's interface towards IPV4
#   ol_environment_fact FILE KEY         print a value of a site.toml, a list one item a line
#   ol_environment_folder SITES SITE     print the folder of a site; SITES: folders of sites, colon separated
#   ol_environment_site SITES HOST...    print the site whose `hosts` or `host_variable` fits this host
#
# Each variable was looked up in the library that reads it; repository, file and date stand beside it.
#
# Reads    ol_environment_master: OUTLAST_MASTER_SUFFIX; ol_environment_job: MASTER_ADDR, OUTLAST_ONLINE, _PROXY, _NO_PROXY, _LOCAL, _THREADS, _RUN, _TOKEN, _DETERMINISM,
#          _GPU_ARCH, _NET_INTERFACES
# Needs    log
# Sourcing it defines the functions above and does nothing else.

ol_environment_job() {
  if [[ ${OUTLAST_ONLINE:-0} == 1 ]]; then
    ol_environment_online "$OUTLAST_PROXY" "$OUTLAST_NO_PROXY"
  else
    ol_environment_offline
  fi
  ol_environment_caches "$OUTLAST_LOCAL/caches"
  ol_environment_threads "$OUTLAST_THREADS"
  ol_environment_wandb "$OUTLAST_RUN-${USER:-$EUID}"
  ol_environment_flight "/tmp/outlast.$OUTLAST_TOKEN.flight."
  [[ ${OUTLAST_DETERMINISM:-0} != 1 ]] || ol_environment_deterministic
  ol_environment_gpu "$OUTLAST_GPU_ARCH"
  ol_environment_network "$MASTER_ADDR" ${OUTLAST_NET_INTERFACES[@]+"${OUTLAST_NET_INTERFACES[@]}"} || :
}

ol_environment_default() {
  [[ -v $1 ]] || export "$1=$2"
}

# huggingface_hub reads HF_HUB_OFFLINE, or else TRANSFORMERS_OFFLINE (src/huggingface_hub/constants.py,
# 2026-08-20); transformers before 5 reads its own name (src/transformers/utils/hub.py); datasets reads
# HF_DATASETS_OFFLINE, or else the hub's (src/datasets/config.py, 2026-07-31). Without them each rank
# tries to reach the hub and waits for a time-out. wandb: WANDB_MODE (wandb/sdk/wandb_settings.py,
# 2026-08-21); send the runs later with `wandb sync`. pip: PIP_<OPTION> (pip docs, "Configuration").
ol_environment_offline() {
  ol_environment_default HF_HUB_OFFLINE 1
  ol_environment_default TRANSFORMERS_OFFLINE 1
  ol_environment_default HF_DATASETS_OFFLINE 1
  # The library's own default, made visible: this is the folder to fill on a login node.
  ol_environment_default HF_HOME "${XDG_CACHE_HOME:-${HOME:-}/.cache}/huggingface"
  ol_environment_default WANDB_MODE offline
  ol_environment_default PIP_NO_INDEX 1
  ol_environment_default PIP_DISABLE_PIP_VERSION_CHECK 1
}

# curl and Python's urllib read the names in lower case, Go programs both, so both are set.
ol_environment_online() {
  local proxy=$1 no_proxy_list=$2 name
  [[ -n $proxy ]] || return 0
  for name in http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; do
    ol_environment_default "$name" "$proxy"
  done
  ol_environment_default no_proxy "$no_proxy_list"
  ol_environment_default NO_PROXY "$no_proxy_list"
}

# Their default is under $HOME, where thousands of ranks meet on one file system and its locks.
#   TRITON_CACHE_DIR             triton-lang/triton python/triton/knobs.py, class cache_knobs
#   TORCHINDUCTOR_CACHE_DIR      pytorch/pytorch torch/_inductor/runtime/cache_dir_utils.py
#   MIOPEN_USER_DB_PATH, MIOPEN_CUSTOM_CACHE_DIR   OLCF, software/analytics/pytorch_frontier.rst, 2026-07-22:
#                                "Needed to bypass MIOpen, Disk I/O Errors"
#   ROCFFT_RTC_CACHE_PATH        a file, not a folder (ROCm/rocFFT docs); a cache in $HOME does not scale (OLCFDEV-1079)
#   CUDA_CACHE_PATH              CUDA C++ Programming Guide, "CUDA Environment Variables"
ol_environment_caches() {
  local folder=$1
  ol_environment_default TRITON_CACHE_DIR "$folder/triton"
  ol_environment_default TORCHINDUCTOR_CACHE_DIR "$folder/inductor"
  ol_environment_default MIOPEN_USER_DB_PATH "$folder/miopen"
  ol_environment_default MIOPEN_CUSTOM_CACHE_DIR "$folder/miopen"
  ol_environment_default ROCFFT_RTC_CACHE_PATH "$folder/rocfft.db"
  ol_environment_default CUDA_CACHE_PATH "$folder/cuda"
}

# OpenMP's default is all cores for each rank; PyTorch's CPU operators follow it.
ol_environment_threads() {
  ((${1:-0} > 0)) || return 0
  ol_environment_default OMP_NUM_THREADS "$1"
}

# wandb/sdk/wandb_settings.py, 2026-08-21: `run_id` may not hold any of :;,#?/' and no blank at its ends;
# `resume="allow"` goes on with a run of that ID, or makes it. The ID is unique in its W&B project.
ol_environment_wandb() {
  ol_environment_default WANDB_RUN_ID "${1//[:;,#?\/\' ]/-}"
  ol_environment_default WANDB_RESUME allow
}

# pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.{cpp,hpp}: with a buffer it keeps the last collectives, and writes them
# to the file's name plus the rank at a time-out, or when anything comes into the pipe's name plus RANK.pipe. It stops
# where it cannot make the pipe, so it stands in /tmp, which each node has.
ol_environment_flight() {
  ol_environment_default TORCH_NCCL_TRACE_BUFFER_SIZE 2000
  ol_environment_default TORCH_NCCL_DUMP_ON_TIMEOUT 1
  ol_environment_default TORCH_NCCL_DEBUG_INFO_TEMP_FILE "$1"
  ol_environment_default TORCH_NCCL_DEBUG_INFO_PIPE_FILE "$1"
}

# The trainer must ask for deterministic algorithms itself; these are the switches outside of its code.
#   CUBLAS_WORKSPACE_CONFIG        pytorch/pytorch docs/source/notes/randomness.rst; cuBLAS 10.2 and newer
#   PYTHONHASHSEED                 docs.python.org, "Command line and environment"
#   FLASH_ATTENTION_DETERMINISTIC  huggingface/transformers 5.24, trainer_utils.py, enable_full_determinism
#   NVTE_ALLOW_NONDETERMINISTIC_ALGO, NCCL_ALGO   NVIDIA/Megatron-LM, arguments of --deterministic-mode
#   ROCBLAS_DEFAULT_ATOMICS_MODE   ROCm/rocBLAS library/src/handle.cpp; 0: no atomics
ol_environment_deterministic() {
  ol_environment_default CUBLAS_WORKSPACE_CONFIG :4096:8
  ol_environment_default PYTHONHASHSEED 0
  ol_environment_default FLASH_ATTENTION_DETERMINISTIC 1
  ol_environment_default NVTE_ALLOW_NONDETERMINISTIC_ALGO 0
  ol_environment_default NCCL_ALGO Ring
  ol_environment_default ROCBLAS_DEFAULT_ATOMICS_MODE 0
}

# Triton's AMD backend reads both (triton-lang/triton python/triton/knobs.py, class amd_knobs; on by default
# since 3.5). Buffer operations have 32-bit offsets: ROCm/triton #830 (2025-07) is a memory access fault in
# Inductor's kernels that goes away with AMDGCN_USE_BUFFER_OPS=0; PyTorch's release branches reverted the
# default for it (triton-lang/triton #7456, #8013). The atomics take effect only with the operations on.
ol_environment_gpu() {
  [[ $1 == gfx90a ]] || return 0
  ol_environment_default AMDGCN_USE_BUFFER_OPS 0
  ol_environment_default AMDGCN_USE_BUFFER_ATOMICS 0
}

# Print this host's IPv4 addresses: `ADDRESS LABEL` a line. The label is what getifaddrs(3) calls the interface,
# so what NCCL and Gloo compare with; it can differ from the device (`hsn0:chn` on device hsn0, seen on Slingshot).
# Status 2: `ip` is missing or says nothing.
_ol_environment_addresses() {
  local lines
  # /usr/sbin: where `ip` is on SLES, and not in a user's PATH.
  lines=$(PATH=$PATH:/usr/sbin:/sbin timeout 10 ip -o -4 address show up 2>/dev/null) || return 2
  [[ -n $lines ]] || return 2
  sed -n 's,^[0-9]*: [^ ]* *inet \([0-9.]*\)[/ ].* \([^ ]*\)\\.*$,\1 \2,p' <<<"$lines"
}

# Status: 0 printed, 1 no route or not an address, 2 unknown (`ip` is missing).
ol_environment_interface() {
  local to=$1 addresses route source address label
  addresses=$(_ol_environment_addresses) || return 2
  route=$(PATH=$PATH:/usr/sbin:/sbin timeout 10 ip -o -4 route get "$to" 2>/dev/null) || return 1
  # The kernel's source address for the route; for an address of this host it is that address itself.
  source=$(sed -n 's/.* src \([0-9.]*\).*/\1/p' <<<"$route")
  while read -r address label; do
    [[ $address == "$source" ]] || continue
    printf '%s\n' "$label"
    return 0
  done <<<"$addresses"
  return 1
}

# Print those of the interfaces NAME that have an IPv4 address on this host, comma separated.
_ol_environment_present() {
  local addresses name list=''
  addresses=$(_ol_environment_addresses) || return 2
  for name in "$@"; do
    [[ ! $addresses =~ \ $name(:[^$'\n']*)?($'\n'|$) ]] || list+=,$name
  done
  printf '%s\n' "${list#,}"
}

# NCCL_SOCKET_FAMILY  AF_INET or AF_INET6, anything else is ignored (NVIDIA/nccl src/misc/socket.cc, 2026-06-11;
#                     ROCm/rccl the same, 2024-10-24)
# NCCL_SOCKET_IFNAME  a list of prefixes; `=` in front: of whole names; a part after `:` is a port
#                     (same file, and src/misc/utils.cc). Prefixes, since a label can have `:chn` at its end.
# GLOO_SOCKET_IFNAME  names, compared whole; with several, each pair of ranks uses them in turn
#                     (pytorch/pytorch torch/csrc/distributed/c10d/init.cpp). One is enough for its small messages,
#                     and unset it takes the address of the host's name: 127.0.1.1 on Debian.
# TP_SOCKET_IFNAME    one name, compared whole (pytorch/pytorch torch/csrc/distributed/rpc/tensorpipe_agent.cpp)
# IPV4 is the master's; empty: not known, the names alone must do.
# Status 1: no interface found; IPv4 is asked for, and the names are left to the libraries.
ol_environment_network() {
  local to=$1 towards='' present=''
  shift
  ol_environment_default NCCL_SOCKET_FAMILY AF_INET
  [[ -z $to ]] || towards=$(ol_environment_interface "$to") || towards=''
  (($# == 0)) || present=$(_ol_environment_present "$@") || present=''
  # To one's own loopback (one machine, no network) the site's names are of no use.
  [[ $towards != lo ]] || present=''
  [[ -n $present ]] || present=${towards%%:*}
  [[ -n $towards ]] || towards=${present%%,*}
  if [[ -z $present ]]; then
    [[ -z $to ]] || ol_log_warn "no network interface found towards $to; NCCL and Gloo choose by themselves"
    return 1
  fi
  ol_environment_default NCCL_SOCKET_IFNAME "$present"
  ol_environment_default GLOO_SOCKET_IFNAME "$towards"
  ol_environment_default TP_SOCKET_IFNAME "$towards"
}

# Can another node reach it? Not its own loopback, a network without addresses (169.254), many at once (from 224 on).
_ol_environment_is_ipv4() {
  local octet='(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])'
  [[ $1 =~ ^$octet(\.$octet){3}$ && ! $1 =~ ^(0|127|169\.254|22[4-9]|23[0-9]|24[0-9]|25[0-5])\. ]]
}

# Trainers get a number, not a name: a name can lead to IPv6, or to 127.0.1.1 on the node itself.
# With OUTLAST_MASTER_SUFFIX the short name and that suffix is asked for. Where the site has named its fast network
# so, several addresses are several ports of it, and the first will do (Aurora: argonne-lcf/user-guides,
# docs/aurora/data-science/inference/vllm.md, 2026-08-19, sorts them and takes the first, too).
# Status 1: HOST has no such address, or several without such a suffix; one line says so.
ol_environment_master() {
  local host=$1 found address all=()
  [[ -z ${OUTLAST_MASTER_SUFFIX:-} ]] || host=${host%%.*}$OUTLAST_MASTER_SUFFIX
  found=$(timeout 10 getent ahostsv4 "$host" 2>/dev/null | sort) || found=''
  while read -r address _; do
    ! _ol_environment_is_ipv4 "$address" || [[ " ${all[*]-} " == *" $address "* ]] || all+=("$address")
  done <<<"$found"
  if ((${#all[@]} == 0)) || { ((${#all[@]} > 1)) && [[ -z ${OUTLAST_MASTER_SUFFIX:-} ]]; }; then
    ol_log_error "FATAL: $host must have one IPv4 address that other nodes reach, and has ${#all[@]}" \
      "(${all[*]-}; getent ahostsv4 $host says: ${found//$'\n'/, })"
    return 1
  fi
  printf '%s\n' "${all[0]}"
}

# Reads the plain form in which site files are written: the key at the start of its line, the value on the same line.
# Status 1: the file has no such key.
ol_environment_fact() {
  local file=$1 key=$2 line
  local item="'([^']*)'|\"([^\"]*)\"|(true|false|[0-9]+)"
  line=$(sed -n "/^\[/q; s/^$key *= *//p" "$file") || return 1
  [[ -n $line ]] || return 1
  while [[ $line =~ $item ]]; do
    printf '%s\n' "${BASH_REMATCH[1]}${BASH_REMATCH[2]}${BASH_REMATCH[3]}"
    line=${line#*"${BASH_REMATCH[0]}"}
  done
}

# The first that has a site of this name. Status 1: none has.
ol_environment_folder() {
  local folder folders
  IFS=: read -ra folders <<<"$1"
  for folder in "${folders[@]}"; do
    [[ -n $folder && -n $2 && $2 != */* && -f $folder/$2/site.toml ]] || continue
    printf '%s\n' "$folder/$2"
    return 0
  done
  return 1
}

# Status: 0 one site fits, 1 none or several (nothing printed).
ol_environment_site() {
  local folder folders file name seen=' ' found=()
  IFS=: read -ra folders <<<"$1"
  shift
  for folder in "${folders[@]}"; do
    for file in "$folder"/*/site.toml; do
      name=${file%/site.toml} name=${name##*/}
      # A site of this name in an earlier folder takes this one's place.
      [[ -f $file && $seen != *" $name "* ]] || continue
      seen+="$name "
      ! _ol_environment_fits "$file" "$@" || found+=("$name")
    done
  done
  ((${#found[@]} == 1)) || return 1
  printf '%s\n' "${found[0]}"
}

# Is this host one of the site's: by a variable that the site sets everywhere, or by one of the names HOST?
_ol_environment_fits() {
  local file=$1 variable pattern patterns host
  shift
  variable=$(ol_environment_fact "$file" host_variable) || variable=''
  if [[ $variable == *=* ]]; then
    host=${variable%%=*}
    [[ ${!host-} != "${variable#*=}" ]] || return 0
  fi
  patterns=$(ol_environment_fact "$file" hosts) || patterns=''
  while read -r pattern; do
    for host in "$@"; do
      [[ -z $pattern || ! $host =~ ^($pattern)$ ]] || return 0
    done
  done <<<"$patterns"
  return 1
}
