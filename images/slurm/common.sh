# Shared by the scripts of this folder: what is mounted where, and small steps that several of them take.
config=/etc/corral/config # what Corral wants, as Kubernetes mounts it: ConfigMaps, or a Secret for slurmdbd
keys=/etc/corral/keys     # Secrets
installed=/etc/slurm      # what the daemon reads
state=/var/spool/slurmctld # a volume; who may write to its own folder is not ours to say
saved=$state/saved         # StateSaveLocation
good=$state/.corral/good       # the last configuration that slurmctld ran with; outlives the pod
fatals=/run/slurmctld/fatal # lines of slurmctld's log that were the last words of one
applied=$state/.corral/applied # its digest, and since when slurmctld has had it

say() { echo "corral: $*" >&2; }

digest_of() { cat "$1/corral-digest" 2>/dev/null || :; }

# Keys stay where Kubernetes renews them. Slurm takes links, and takes slurm.jwks in place of slurm.key if it is there.
link_keys() {
    for key in "$keys"/*; do
        [ ! -f "$key" ] || ln -sf "$key" "$1/${key##*/}"
    done
}

# The mounted keys as members of a JSON object: "slurm.jwks":"the beginning of its sha256","jwt.key":...
# Kubernetes takes the old folder away when it has turned ..data: whoever was in it looks again.
key_digests() {
    for _try in 1 2 3 4 5; do
        sums=$(cd "$keys/" && cd -P ..data 2>/dev/null || cd "$keys/" && sha256sum -- *) 2>/dev/null && break
        sleep 0.1
    done
    printf '%s\n' "$sums" | sed 's/^\(.\{16\}\)[^ ]* [ *]\(.*\)/"\2":"\1"/' | paste -s -d , -
}

# What the last slurmctld that ended said why, if that came after the first $1 lines of last words; waits a second for it.
last_words() {
    for _try in 1 2 3 4 5 6 7 8 9 10; do
        words=$(tail -n "+$(($1 + 1))" "$fatals" | tail -n 1 | sed 's/^\[[^]]*\] //')
        [ -z "$words" ] || break
        sleep 0.1
    done
    printf '%s' "$words"
}

# As Slurm writes times: they compare as text.
now() { date +%Y-%m-%dT%H:%M:%S; }

# Kubernetes replaces all mounted files at once by turning ..data to another folder: read from one such folder only.
copy_mounted() {
    source=$(readlink -f "$config/..data") && [ -d "$source" ] || source=$config
    rm -rf "$1"
    mkdir -p "$1"
    cp -RL "$source"/* "$1"/
}

# The files of folder $1 become /etc/slurm, each in one step; what is not in it goes.
install_from() {
    for file in "$1"/*; do
        rm -rf "$installed/.new"
        cp -RL "$file" "$installed/.new"
        [ ! -d "$installed/${file##*/}" ] || rm -rf "$installed/${file##*/}"
        mv -T "$installed/.new" "$installed/${file##*/}"
    done
    for file in "$installed"/*; do
        [ -e "$1/${file##*/}" ] || rm -rf "$file"
    done
    link_keys "$installed"
}

# Daemons that find nobody try again after 5 to 10 s; a look every 0.2 s saves that. After $3 s we go on regardless. Who
# waits says so: of a daemon that was not even started there is nothing else in the log.
wait_for_port() {
    tries=$(($3 * 5))
    until timeout 2 bash -c ": >/dev/tcp/$1/$2" 2>/dev/null; do
        [ $tries -ne $(($3 * 5)) ] || say "waiting for $1:$2"
        tries=$((tries - 1))
        [ $tries -gt 0 ] || break
        sleep 0.2
    done
    case $tries in
    $(($3 * 5))) ;; # at once
    0) say "$1:$2 is not there after $3 s" ;;
    *) say "$1:$2 is there" ;;
    esac
}

# The value of key $2 in file $1; Slurm reads keys in any case, and the last one counts.
value_of() { sed -n "s/^[[:space:]]*$2[[:space:]]*=[[:space:]]*\\([^[:space:]#]*\\).*/\\1/Ip" "$1" | tail -n 1; }

# Why jobs cannot be confined by the cgroups below folder $1; nothing when they can.
cgroup_trouble() {
    kind=$(stat -f -c %T "$1" 2>/dev/null || :)
    if [ "$kind" != cgroup2fs ]; then
        echo "$1 is ${kind:-not there}: expected cgroup2fs; boot the node with cgroup v2 alone"
    elif ! { mkdir "$1/corral-trial" && rmdir "$1/corral-trial"; } 2>/dev/null; then
        echo "$1 is read-only: let the worker's container be privileged, or its runtime give it a writable cgroup"
    fi
}

# What may stand between quotes in JSON: one line, cut to a length before anything is escaped, valid UTF-8.
json_text() {
    printf '%s' "$*" | tr '\n\t' '  ' | tr -d '\000-\037\177' | head -c 2000 | iconv -c -f UTF-8 -t UTF-8 |
        sed 's/[\\"]/\\&/g'
}
