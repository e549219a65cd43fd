# Short words for what people and administrators of a Slurm cluster ask all day. `type drain` shows what one does.
alias sn='sinfo --Node --long'
alias sq='squeue --format="%.10i %.9P %.24j %.12u %.8T %.12M %.6D %R"'
alias sqme='sq --me'
alias dl='sinfo --list-reasons --format="%20n %10T %12u %19H %E"'
alias dld='sinfo --list-reasons --states=drained,draining,down --Node --format="%20N %10T %12u %19H %E"'
alias sj='scontrol show job'
alias snode='scontrol show node'

# drain NODES REASON: no new jobs there; who did it and why stands in the reason.
drain() {
    [ $# -ge 2 ] || { echo "usage: drain NODES REASON" >&2; return 2; }
    _nodes=$1
    shift
    scontrol update "NodeName=$_nodes" State=DRAIN "Reason=$(id -un): $*"
    set -- $?
    unset _nodes
    return "$1"
}

# undrain NODES: they take jobs again.
undrain() {
    [ $# -eq 1 ] || { echo "usage: undrain NODES" >&2; return 2; }
    scontrol update "NodeName=$1" State=RESUME
}

[ ! -r /etc/corral/login/profile.sh ] || . /etc/corral/login/profile.sh
