# shellcheck shell=bash
# lib/versions.sh - with what the trainer runs: Python, torch and its friends
#
# Functions
#   ol_versions_note CMD...   in the launch's environment: write the versions down for the manifests of its checkpoints
#   ol_versions_json          print them as JSON fields, with a comma before each; nothing: unknown
#
# Files    OUTLAST_STATE/versions   `NAME=VERSION ...`; no file where nobody can say
# Reads    OUTLAST_STATE
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

# Print the interpreter that CMD starts: CMD itself, the first line of a script like torchrun, else what is called python.
_ol_versions_python() { # CMD...
  local file line=''
  file=$(type -P "$1") || file=''
  if [[ ${file##*/} == python* ]]; then
    printf '%s\n' "$file"
    return
  fi
  [[ -z $file ]] || IFS= read -rn 300 line 2>/dev/null <"$file"
  line=${line#'#!'}
  line=${line%% *}
  if [[ ${line##*/} == python* && -x $line ]]; then
    printf '%s\n' "$line"
  else
    type -P python3 || type -P python
  fi
}

# Nothing is imported: the names and versions of what is installed lie in small files, and CUDA's in one of torch's.
_ol_versions_ask() { # PYTHON
  timeout -k 2 60 "$1" -c '
import re, sys
print("python=%d.%d.%d" % sys.version_info[:3])
from importlib import metadata
for name in sys.argv[1:]:
    try:
        print(name + "=" + metadata.version(name))
    except Exception:
        pass
with open(str(metadata.distribution("torch").locate_file("torch/version.py"))) as file:
    found = dict(re.findall(r"""^(cuda|hip|xpu)\b[^=\n]*= *[\x27"]([^\x27"]+)""", file.read(), re.M))
for name in found:
    print({"hip": "rocm"}.get(name, name) + "=" + found[name])
' torch transformers accelerate deepspeed lightning torchtitan megatron-core </dev/null 2>/dev/null
}

# Once a job, on the first node, and nobody waits for it: a Python on the shared file system takes its time to start. Not
# our child: the launcher would find it among its own.
ol_versions_note() {
  [[ ! -e $OUTLAST_STATE/versions ]] || return 0
  (
    {
      python=$(_ol_versions_python "$@") || python=''
      said=$(_ol_versions_ask "$python") || : # without torch, say; what was said before counts
      printf '%s\n' "${said//$'\n'/ }" >"$OUTLAST_STATE/versions.new" && mv "$OUTLAST_STATE/versions.new" "$OUTLAST_STATE/versions"
    } >/dev/null 2>&1 </dev/null &
  )
}

# They come out of somebody else's files, so only what looks like a version is one.
ol_versions_json() {
  local said='' word
  read -r said 2>/dev/null <"$OUTLAST_STATE/versions"
  for word in $said; do
    [[ ! $word =~ ^[a-z][a-z-]*=[0-9A-Za-z][0-9A-Za-z.+_-]*$ ]] || printf ',"%s":"%s"' "${word%%=*}" "${word#*=}"
  done
}
