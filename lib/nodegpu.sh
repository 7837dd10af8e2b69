# shellcheck shell=bash
# lib/nodegpu.sh - the checks of lib/nodecheck.sh that look at GPUs
#
# Functions
#   ol_nodegpu_vendor   print amd, nvidia or intel; nothing: there are no GPUs here to look at
#
# What the kernel shows is read first: it answers in no time. A vendor's tool is asked for the rest, and may hang.
# Sources  AMD: Linux drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c ("AMDGPU RAS sysfs Error Count Interface", "gpu_vram_bad_pages
#          Interface"), amdgpu_vram_mgr.c (mem_info_vram_used), amdkfd/kfd_topology.c (gpu_id, properties)
#          NVIDIA: /proc/driver/nvidia/gpus (driver README, "The /proc Interface"); nvidia-smi --help-query-gpu,
#          --help-query-remapped-rows; "Xid Errors" (docs.nvidia.com/deploy/xid-errors)
#          Intel: /sys/class/drm, where the driver for data centers has gt/gt*/error_counter (intel/compute-runtime
#          level_zero/sysman/source/api/ras); xpu-smi (intel/xpumanager): discovery, `dump -m`, health. From 2.4.0 on its metrics of errors
#          are "Unsupported"
#          Clocks: amdgpu_pm.c ("pp_dpm_sclk", "power1_cap"); NVML's nvmlClocksEventReasons; i915/gt/intel_gt_sysfs_pm.c
#          (rps_max_freq_mhz, throttle_reason_*)
# Reads    OUTLAST_CHECK_GPU_TOOL OUTLAST_CHECK_GPUS OUTLAST_CHECK_GPU_MODEL OUTLAST_SYSROOT
# Needs    nodecheck
# Sourcing it defines the functions above and does nothing else.

ol_nodegpu_vendor() {
  local root=${OUTLAST_SYSROOT:-}
  case ${OUTLAST_CHECK_GPU_TOOL:-} in
    rocm-smi | amd-smi) echo amd ;;
    nvidia-smi) echo nvidia ;;
    xpu-smi) echo intel ;;
    *)
      if [[ -e $root/proc/driver/nvidia/gpus ]]; then
        echo nvidia
      elif [[ -n $(_ol_nodegpu_kfd) ]]; then
        echo amd
      fi
      ;;
  esac
}

# One line a device: its kind, in words that a site's gpu_model is looked for in.
_ol_nodegpu_list() {
  case $(ol_nodegpu_vendor) in
    amd) _ol_nodegpu_kfd ;;
    nvidia) _ol_nodegpu_proc ;;
    intel) _ol_nodegpu_drm ;;
  esac
}

# CPUs are nodes of KFD as well, with gpu_id 0. A device that our cgroup hides cannot be read.
_ol_nodegpu_kfd() {
  local node id key value version vendor device
  for node in "${OUTLAST_SYSROOT:-}"/sys/class/kfd/kfd/topology/nodes/*/; do
    id=0 version=0 vendor=0 device=0
    read -r id 2>/dev/null <"${node}gpu_id"
    [[ $id =~ ^[1-9] ]] || continue
    while read -r key value; do
      case $key in
        gfx_target_version) version=$value ;;
        vendor_id) vendor=$value ;;
        device_id) device=$value ;;
      esac
    done 2>/dev/null <"${node}properties"
    # 90010 is gfx90a: major, and minor and step in hex.
    printf 'gfx%d%x%x %04x:%04x\n' "$((version / 10000))" "$((version / 100 % 100))" "$((version % 100))" "$vendor" "$device"
  done
}

_ol_nodegpu_proc() {
  local file line
  for file in "${OUTLAST_SYSROOT:-}"/proc/driver/nvidia/gpus/*/information; do
    while read -r line; do
      [[ ! $line =~ ^Model:[[:space:]]*(.*) ]] || printf '%s\n' "${BASH_REMATCH[1]}"
    done 2>/dev/null <"$file"
  done
}

# Data Center GPU Max is 8086:0bd0 to 0bdb (Linux include/drm/intel/pciids.h, INTEL_PVC_IDS); a tile of it is a gt.
_ol_nodegpu_drm() {
  local card vendor device gt tiles
  for card in "${OUTLAST_SYSROOT:-}"/sys/class/drm/card*/; do
    [[ $card =~ /card[0-9]+/$ ]] || continue
    vendor='' device='' tiles=0
    read -r vendor 2>/dev/null <"${card}device/vendor"
    read -r device 2>/dev/null <"${card}device/device"
    [[ $vendor == 0x8086 ]] || continue
    for gt in "${card}"gt/gt*/; do [[ ! -d $gt ]] || tiles=$((tiles + 1)); done
    [[ $device != 0x0bd* ]] || printf 'pvc '
    printf '8086:%s%s\n' "${device#0x}" "$( ((tiles == 0)) || printf ' %d tiles' "$tiles")"
  done
}

# Where the kernel shows none, the tool is asked.
_ol_nodegpu_list_by_tool() {
  case ${OUTLAST_CHECK_GPU_TOOL:-} in
    rocm-smi) _ol_nodegpu_tool rocm-smi --showproductname | sed -nE 's/^GPU\[[0-9]+\][[:space:]]*: Card [Ss]eries:[[:space:]]*//p' ;;
    amd-smi) _ol_nodegpu_tool amd-smi list | sed -nE 's/^GPU: [0-9]+.*/amd/p' ;;
    nvidia-smi) _ol_nodegpu_tool nvidia-smi -L | sed -nE 's/^GPU [0-9]+: (.*) \(UUID.*/\1/p' ;;
    xpu-smi) _ol_nodegpu_tool xpu-smi discovery | sed -nE 's/.*Device Name: ([^|]*[^| ]).*/\1/p' ;;
  esac
}

# Without a limit of its own: who asks has one, and a hang must not look like an answer.
_ol_nodegpu_tool() { "$@" 2>/dev/null </dev/null; }

_ol_nodegpu_found() {
  local found
  found=$(_ol_nodegpu_list)
  [[ -n $found ]] || found=$(_ol_nodegpu_list_by_tool)
  [[ -z $found ]] || printf '%s\n' "$found"
}

_ol_nodegpu_has_driver() {
  local root=${OUTLAST_SYSROOT:-} path
  for path in "$root"/dev/{kfd,nvidia0} "$root"/proc/driver/nvidia "$root"/sys/module/{amdgpu,nvidia,i915,xe}; do
    [[ ! -e $path ]] || return 0
  done
  return 1
}

_ol_nodegpu_check_count() {
  local found count expected=${OUTLAST_CHECK_GPUS:-0}
  found=$(_ol_nodegpu_found)
  count=$([[ -z $found ]] || wc -l <<<"$found")
  count=${count:-0}
  if ((count == 0 && expected == 0)); then
    ol_nodecheck_say gpu_count unknown "neither the kernel nor a tool shows a GPU"
  elif ((count == 0)) && _ol_nodegpu_has_driver; then
    # A step that asked for none may not see those that are there. The first node knows whether others see some.
    ol_nodecheck_say gpu_count unknown "0 are shown to this step, and a driver is there" "$expected"
  elif ((expected == 0)); then
    ol_nodecheck_say gpu_count ok "$count"
  elif ((count < expected)); then
    ol_nodecheck_say gpu_count bad "$count" "$expected"
  else
    ol_nodecheck_say gpu_count ok "$count" "$expected"
  fi
}

_ol_nodegpu_check_model() {
  local found kinds expected=${OUTLAST_CHECK_GPU_MODEL:-} line answer=ok wrong=bad
  found=$(_ol_nodegpu_list)
  if [[ -z $found ]]; then
    # A tool has a name of its own for the same thing.
    wrong=unknown
    found=$(_ol_nodegpu_list_by_tool)
  fi
  if [[ -z $found ]]; then
    ol_nodecheck_say gpu_model unknown "no GPU is shown" "$expected"
    return
  fi
  while read -r line; do
    [[ -z $expected || $line =~ $expected ]] || answer=$wrong
  done <<<"$found"
  kinds=$(sort <<<"$found" | uniq -c | sed -E 's/^ *([0-9]+) /\1 x /' | paste -sd';')
  ol_nodecheck_say gpu_model "$answer" "$kinds" "$expected"
}

_ol_nodegpu_check_driver() {
  local file version=''
  for file in nvidia amdgpu i915 xe; do
    [[ -n $version ]] || read -r version 2>/dev/null <"${OUTLAST_SYSROOT:-}/sys/module/$file/version"
  done
  if [[ -n $version ]]; then
    ol_nodecheck_say gpu_driver ok "$version"
  else
    # A driver of the kernel itself has its version.
    read -r _ _ version _ 2>/dev/null <"${OUTLAST_SYSROOT:-}/proc/version"
    ol_nodecheck_say gpu_driver ok "kernel ${version:-?}"
  fi
}

# Errors are counted since the driver was loaded, or for ever: the first node knows what was seen before.
_ol_nodegpu_counted() { # CHECK COUNT|'' WORDS
  if [[ $2 =~ ^[0-9]+$ ]]; then
    ol_nodecheck_say "$1" ok "count=$2" "none new"
  else
    ol_nodecheck_say "$1" unknown "$3" "none new"
  fi
}

# The sum of a column of `a, b, c` lines; nothing where no line has a number there.
_ol_nodegpu_sum() { # COLUMN
  awk -F, -v at="$1" '{ gsub(/[ \t\r]/, "", $at) } $at ~ /^[0-9]+(\.0+)?$/ { sum += $at; some = 1 } END { if (some) printf "%d\n", sum }'
}

_ol_nodegpu_check_ecc() {
  local count
  case $(ol_nodegpu_vendor) in
    amd)
      count=$(cat "${OUTLAST_SYSROOT:-}"/sys/class/drm/card*/device/ras/*_err_count 2>/dev/null |
        awk '$1 == "ue:" && $2 ~ /^[0-9]+$/ { sum += $2; some = 1 } END { if (some) print sum }')
      ;;
    nvidia) count=$(_ol_nodegpu_tool nvidia-smi --query-gpu=ecc.errors.uncorrected.aggregate.total --format=csv,noheader,nounits | _ol_nodegpu_sum 1) ;;
    intel)
      count=$(cat "${OUTLAST_SYSROOT:-}"/sys/class/drm/card*/gt/gt*/error_counter/*fatal* 2>/dev/null | _ol_nodegpu_sum 1)
      [[ -n $count ]] || count=$(_ol_nodegpu_tool xpu-smi dump -d -1 -m 30 -n 1 | _ol_nodegpu_sum 3)
      ;;
  esac
  _ol_nodegpu_counted gpu_ecc "$count" "errors are not told"
}

# 48: double bit; 63, 64: a row is remapped, or cannot be; 74: NVLink; 79: off the bus; 92, 94, 95: many, contained, uncontained;
# 119, 120: its firmware. Those of a program's own making (13, 31, 43, 45) tell nothing of the node.
_ol_nodegpu_check_xid() {
  local log=''
  if [[ -n ${OUTLAST_SYSROOT:-} ]]; then
    log=$(cat "$OUTLAST_SYSROOT/dmesg" 2>/dev/null)
  else
    log=$(timeout -k 1 5 dmesg 2>/dev/null)
  fi
  if [[ -z $log ]]; then
    ol_nodecheck_say gpu_xid unknown "the kernel's log is not ours to read" "none new"
    return
  fi
  _ol_nodegpu_counted gpu_xid "$(grep -cE 'NVRM: Xid \([^)]*\): (48|63|64|74|79|92|94|95|119|120),' <<<"$log")" ''
}

# Memory that is to be taken out of use at the next reset, or could not be.
_ol_nodegpu_check_remap() {
  local flags words file some=''
  case $(ol_nodegpu_vendor) in
    amd)
      for file in "${OUTLAST_SYSROOT:-}"/sys/class/drm/card*/device/ras/gpu_vram_bad_pages; do [[ ! -r $file ]] || some=1; done
      flags=$(awk -F: '{ gsub(/ /, "", $3) } $3 == "P" || $3 == "F" { n[$3]++ } END { if (n["P"] + n["F"]) printf "%d pages pending, %d not reserved\n", n["P"], n["F"] }' \
        "${OUTLAST_SYSROOT:-}"/sys/class/drm/card*/device/ras/gpu_vram_bad_pages 2>/dev/null)
      ;;
    nvidia)
      words=$(_ol_nodegpu_tool nvidia-smi --query-remapped-rows=remapped_rows.pending,remapped_rows.failure --format=csv,noheader)
      [[ ! $words =~ (^|[ ,$'\n'])(0|1|No|Yes)($|[ ,$'\n']) ]] || some=1
      flags=$(awk -F', *' '$1 ~ /^(1|Yes)/ { p++ } $2 ~ /^(1|Yes)/ { f++ } END { if (p + f) printf "%d GPUs with rows pending, %d failed\n", p, f }' <<<"$words")
      ;;
    intel)
      words=$(_ol_nodegpu_tool xpu-smi health -l | grep -A 1 -E 'GPU Memory +\|' | grep -oE 'Status: [A-Za-z]+')
      [[ ! $words =~ (O[Kk]|Warning|Critical) ]] || some=1
      flags=$(grep -E 'Warning|Critical' <<<"$words" | sort | uniq -c | paste -sd';')
      ;;
  esac
  if [[ -n $flags ]]; then
    ol_nodecheck_say gpu_remap bad "$flags" none
  elif [[ -n $some ]]; then
    ol_nodecheck_say gpu_remap ok none none
  else
    ol_nodecheck_say gpu_remap unknown "it is not told" none
  fi
}

# What the fullest device holds, in MiB.
_ol_nodegpu_used_mib() {
  case $(ol_nodegpu_vendor) in
    amd) cat "${OUTLAST_SYSROOT:-}"/sys/class/drm/card*/device/mem_info_vram_used 2>/dev/null | awk '/^[0-9]+$/ { print int($1 / 1048576) }' ;;
    nvidia) _ol_nodegpu_tool nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits ;;
    intel) _ol_nodegpu_tool xpu-smi dump -d -1 -m 18 -n 1 | awk -F, 'NF > 2 { print int($NF) }' ;;
  esac | awk '$1 ~ /^[0-9]+$/ && $1 >= most { most = $1; some = 1 } END { if (some) print most }'
}

# A driver keeps some hundred MiB for itself.
_ol_nodegpu_check_memory() {
  local used_mib
  used_mib=$(_ol_nodegpu_used_mib)
  if [[ -z $used_mib ]]; then
    ol_nodecheck_say gpu_memory unknown "it is not told" "at most 2048 MiB in use"
  else
    ol_nodecheck_say gpu_memory "$( ((used_mib <= 2048)) && echo ok || echo bad)" "$used_mib MiB in use" "at most 2048 MiB in use"
  fi
}

# Processes of ours have a device open (others' are not shown to us, but KFD and nvidia-smi name them). Nothing of this job
# does before a launch; what the checks themselves run is marked. A tool of theirs that is just ending has lost its mark: only
# who is still there half a second later counts.
_ol_nodegpu_check_process() {
  local root=${OUTLAST_SYSROOT:-} pid found holders=() name again
  found=$(_ol_nodegpu_strangers)
  if [[ -n $found ]]; then
    sleep 0.5
    again=$'\n'$(_ol_nodegpu_strangers)$'\n'
  fi
  for pid in $found; do
    [[ $again == *$'\n'"$pid"$'\n'* ]] || continue
    name='' && read -r name 2>/dev/null <"$root/proc/$pid/comm"
    holders+=("${name:-?} ($pid)")
  done
  if ((${#holders[@]} > 0)); then
    ol_nodecheck_say gpu_process bad "${holders[*]}" none
  else
    ol_nodecheck_say gpu_process ok none none
  fi
}

_ol_nodegpu_strangers() {
  local root=${OUTLAST_SYSROOT:-} pid known=' '
  while read -r pid; do
    [[ $pid =~ ^[0-9]+$ && $known != *" $pid "* && -e $root/proc/$pid ]] || continue
    known+="$pid "
    ! grep -qaz '^OUTLAST_NODECHECK=' "$root/proc/$pid/environ" 2>/dev/null || continue
    printf '%d\n' "$pid"
  done < <(_ol_nodegpu_pids)
}

_ol_nodegpu_pids() {
  local root=${OUTLAST_SYSROOT:-} folder
  stat -c %N "$root"/proc/[0-9]*/fd/* 2>/dev/null | sed -nE "s#^'.*/proc/([0-9]+)/fd/[0-9]+' -> '/dev/(kfd|nvidia[0-9]+|dri/renderD[0-9]+)'\$#\1#p"
  for folder in "$root"/sys/class/kfd/kfd/proc/[0-9]*/; do [[ ! -d $folder ]] || basename "$folder"; done
  [[ $(ol_nodegpu_vendor) != nvidia ]] || _ol_nodegpu_tool nvidia-smi --query-compute-apps=pid --format=csv,noheader
}

# Lines of `MHZ WATTS REASON`, one a device: the most that it may take, and why it is slowed down right now; `-`: not told, or
# it is not.
_ol_nodegpu_clocks() {
  case $(ol_nodegpu_vendor) in
    amd) _ol_nodegpu_clocks_amd ;;
    nvidia) _ol_nodegpu_clocks_nvidia ;;
    intel) _ol_nodegpu_clocks_intel ;;
  esac
}

_ol_nodegpu_clocks_amd() {
  local device mhz uw file
  for device in "${OUTLAST_SYSROOT:-}"/sys/class/drm/card*/device; do
    mhz=$(sed -nE 's/^[0-9]+: ([0-9]+)M[Hh]z.*/\1/p' "$device/pp_dpm_sclk" 2>/dev/null | sort -n | tail -n 1)
    uw=''
    for file in "$device"/hwmon/hwmon*/power1_cap; do read -r uw 2>/dev/null <"$file"; done
    # Of the two dies of a board only one has a limit.
    if [[ $uw =~ ^[1-9][0-9]*$ ]]; then uw=$((uw / 1000000)); else uw=-; fi
    printf '%s %s -\n' "${mhz:--}" "$uw"
  done
}

# The name of the last field has changed (driver 535). A power limit that is reached is no trouble.
_ol_nodegpu_clocks_nvidia() {
  local name words='' mhz watts bits reason
  for name in clocks_event_reasons clocks_throttle_reasons; do
    [[ $words == *0x* ]] || words=$(_ol_nodegpu_tool nvidia-smi "--query-gpu=clocks.max.sm,power.limit,$name.active" --format=csv,noheader,nounits)
  done
  while IFS=' ,' read -r mhz watts bits; do
    reason=''
    if [[ $bits =~ ^0x[0-9A-Fa-f]{1,16}$ ]]; then
      ((! (bits & 0x8))) || reason+=,slowdown
      ((! (bits & 0x60))) || reason+=,thermal
      ((! (bits & 0x80))) || reason+=,power_brake
    fi
    [[ $mhz =~ ^[0-9]+$ ]] || mhz=-
    watts=${watts%.*}
    [[ $watts =~ ^[0-9]+$ ]] || watts=-
    reason=${reason#,}
    printf '%s %s %s\n' "$mhz" "$watts" "${reason:--}"
  done <<<"$words"
}

_ol_nodegpu_clocks_intel() {
  local gt mhz name flag reason
  for gt in "${OUTLAST_SYSROOT:-}"/sys/class/drm/card*/gt/gt*; do
    mhz='' reason=''
    read -r mhz 2>/dev/null <"$gt/rps_max_freq_mhz"
    for name in thermal prochot vr_thermalert; do
      flag=0
      read -r flag 2>/dev/null <"$gt/throttle_reason_$name"
      [[ $flag != 1 ]] || reason+=,$name
    done
    reason=${reason#,}
    [[ $mhz =~ ^[0-9]+$ ]] || mhz=-
    printf '%s - %s\n' "$mhz" "${reason:--}"
  done
}

# Half a second later the same again: a clock that is just changing may say anything. The first node compares the figures.
_ol_nodegpu_check_clock() {
  local told slowed least
  told=$(_ol_nodegpu_clocks)
  slowed=$(awk '$3 != "-" { print $3 }' <<<"$told")
  if [[ -n $slowed ]]; then
    sleep 0.5
    told=$(_ol_nodegpu_clocks)
    slowed=$(awk '$3 != "-" { n++; reason = $3 } END { if (n) printf "%d slowed down (%s)\n", n, reason }' <<<"$told")
  fi
  least=$(awk '$1 ~ /^[0-9]+$/ && (!m || $1 + 0 < m) { m = $1 + 0 } $2 ~ /^[0-9]+$/ && (!w || $2 + 0 < w) { w = $2 + 0 }
    END { if (m) printf "%d MHz", m; if (w) printf "%s%d W", m ? ", " : "", w }' <<<"$told")
  if [[ -n $slowed ]]; then
    ol_nodecheck_say gpu_clock bad "$slowed${least:+, $least}" "none is slowed down"
  elif [[ -n $least ]]; then
    ol_nodecheck_say gpu_clock ok "$least"
  else
    ol_nodecheck_say gpu_clock unknown "it is not told"
  fi
}
