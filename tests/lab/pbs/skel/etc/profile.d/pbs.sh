# shellcheck shell=sh
# A login shell's PATH ends with PBS's commands; in a job too, where /etc/profile has set PATH anew.
PATH=$PATH:/opt/pbs/bin
export PATH
