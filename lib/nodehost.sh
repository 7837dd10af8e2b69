# shellcheck shell=bash
# lib/nodehost.sh - the checks of lib/nodecheck.sh that look at a node's disk, memory, clock and file systems
#
# Each is a function _ol_nodehost_check_CHECK that lib/nodecheck.sh calls.
# Reads    OUTLAST_CHECK_LOCAL OUTLAST_CHECK_LOCAL_IS_DISK OUTLAST_CHECK_LOCAL_FS OUTLAST_CHECK_LOCAL_GIB OUTLAST_CHECK_MEMORY_GIB
#          OUTLAST_CHECK_SHARED OUTLAST_CHECK_FOLDERS OUTLAST_SYSROOT
# Needs    nodecheck
# Sourcing it defines the functions above and does nothing else.

# DEVICE TYPE OPTIONS of what is mounted over a folder: the longest mount point that is a part of its path, the last one of
# several at the same place.
_ol_nodehost_mount() { # FOLDER
  awk -v path="$1/" '{ at = $2 == "/" ? "/" : $2 "/" }
    substr(path, 1, length(at)) == at && length(at) >= best { best = length(at); found = $1 " " $3 " " $4 }
    END { print found }' "${OUTLAST_SYSROOT:-}/proc/mounts" 2>/dev/null
}

# Memory where a disk should be, the network, or the layer above an image: a disk that did not come up.
_ol_nodehost_is_no_disk() { [[ $1 =~ ^(tmpfs|ramfs|rootfs|overlay|squashfs|nfs4?|lustre|gpfs|beegfs|fuse.*)$ ]]; }

_ol_nodehost_check_local_disk() {
  local folder=$OUTLAST_CHECK_LOCAL device='' type='' options='' why='' room='' expected=${OUTLAST_CHECK_LOCAL_FS:-}
  [[ -n $expected || ${OUTLAST_CHECK_LOCAL_IS_DISK:-0} != 1 ]] || expected="a disk"
  (umask 077 && timeout -k 1 5 mkdir -p "$folder" 2>/dev/null)
  read -r device type options < <(_ol_nodehost_mount "$folder")
  if [[ ! -d $folder ]]; then
    why="no folder $folder"
  elif [[ ,$options, == *,ro,* ]]; then
    why="read-only"
  elif [[ $expected == "a disk" ]] && _ol_nodehost_is_no_disk "$type" || [[ -n $expected && $expected != "a disk" && ! $type =~ ^($expected)$ ]]; then
    why="$type ($device)"
  else
    room=$(_ol_nodehost_room "$folder") || why=$room
    [[ -n $why ]] || why=$(_ol_nodehost_writes "$folder")
  fi
  [[ $expected != '.*' ]] || expected=''
  expected+=$( ((${OUTLAST_CHECK_LOCAL_GIB:-0} == 0)) || printf '%s%d GiB free' "${expected:+, }" "$OUTLAST_CHECK_LOCAL_GIB")
  ol_nodecheck_say local_disk "$([[ -z $why ]] && echo ok || echo bad)" "${why:-$type, $room}" "$expected"
}

# Print what is free. Status 1: too little, of room or of files.
_ol_nodehost_room() { # FOLDER
  local size avail files free
  read -r size avail files free < <(timeout -k 1 5 df -B 1M --output=size,avail,itotal,iavail "$1" 2>/dev/null | tail -n 1)
  if [[ ! $size$avail =~ ^[0-9]+$ ]]; then
    echo "df does not answer"
    return 1
  fi
  # An overlay or a memory may not count files.
  [[ $files$free =~ ^[0-9]+$ ]] || files=0 free=0
  printf '%d.%d GiB free\n' "$((avail / 1024))" "$((avail % 1024 * 10 / 1024))"
  if ((files > 0 && free * 20 < files)); then
    printf 'and room for %d files\n' "$free"
    return 1
  fi
  if ((${OUTLAST_CHECK_LOCAL_GIB:-0} > 0)); then
    ((avail >= OUTLAST_CHECK_LOCAL_GIB * 1024))
  else
    ((avail * 20 >= size))
  fi
}

# Print what went wrong with a file of 1 MiB that is written through to the disk and read again.
_ol_nodehost_writes() { # FOLDER
  local file=$1/.outlast-check.$BASHPID why=''
  if ! yes outlast 2>/dev/null | head -c 1048576 | (umask 077 && dd of="$file" bs=1M iflag=fullblock conv=fsync 2>/dev/null); then
    why="cannot write"
  elif ! yes outlast 2>/dev/null | head -c 1048576 | cmp -s - "$file"; then
    why="reads something else than was written"
  fi
  rm -f "$file" 2>/dev/null || why=${why:-cannot remove a file}
  [[ -z $why ]] || printf '%s\n' "$why"
}

# A file is looked at and read, on each node: a write for each would be thousands at once.
_ol_nodehost_check_shared_fs() {
  local path=$OUTLAST_CHECK_SHARED begun_s=$SECONDS
  if head -c 512 "$path" >/dev/null 2>&1 || { [[ -d $path ]] && ls "$path" >/dev/null 2>&1; }; then
    ol_nodecheck_say shared_fs ok "answers after $((SECONDS - begun_s)) s" "$path"
  else
    ol_nodecheck_say shared_fs bad "cannot read" "$path"
  fi
}

# A node that a job before has left full of files in memory has less than the others.
_ol_nodehost_check_memory() {
  local key value total=0 free=0 expected=${OUTLAST_CHECK_MEMORY_GIB:-0}
  while read -r key value _; do
    case $key in
      MemTotal:) total=$((value / 1048576)) ;;
      MemAvailable:) free=$((value / 1048576)) ;;
    esac
  done 2>/dev/null <"${OUTLAST_SYSROOT:-}/proc/meminfo"
  if ((total == 0)); then
    ol_nodecheck_say memory unknown "/proc/meminfo cannot be read"
  elif ((expected > 0 && free * 4 < expected * 3)); then
    ol_nodecheck_say memory bad "$free of $total GiB free" "$((expected * 3 / 4)) GiB free"
  else
    ol_nodecheck_say memory ok "$free of $total GiB free" "$( ((expected == 0)) || printf '%d GiB free' "$((expected * 3 / 4))")"
  fi
}

# The first node knows between which of its own seconds this one was read.
_ol_nodehost_check_clock() {
  local now_s
  printf -v now_s '%(%s)T' -1
  ol_nodecheck_say clock ok "$((now_s + ${OUTLAST_CHECK_CLOCK_OFF_S:-0}))" "as the first node's"
}

# What the first node's modules have put into its paths must be here as well.
_ol_nodehost_check_modules() {
  local folder missing=''
  local IFS=:
  for folder in $OUTLAST_CHECK_FOLDERS; do
    [[ -d $folder ]] || missing+=" $folder"
  done
  ol_nodecheck_say modules "$([[ -z $missing ]] && echo ok || echo bad)" "${missing:+not here:}${missing:-all there}" "the folders of the modules"
}
