# Compiles, links and starts a small CUDA program as a login shell would: in a private folder that is removed afterwards, and
# as the user nobody when root asks. $1 is nvcc, the rest are its options. Exit status 3: there is no private folder.
set -eu
umask 077
work=
made=
clean() {
    [ -z "$work" ] || rm -rf "$work"
    [ -z "$made" ] || rmdir "$made" 2>&- || :
    work=
    made=
}
trap clean EXIT
trap "exit 1" HUP INT TERM
shell=/bin/sh
[ ! -x /bin/bash ] || shell=/bin/bash
root=
[ "$(id -u)" != 0 ] || root=yes
if [ "$root" ]; then
    folders="/run/gpusetup /var/cache/gpusetup"
elif [ -O "${XDG_RUNTIME_DIR:-}" ] && [ "$(stat -c %a "$XDG_RUNTIME_DIR")" = 700 ]; then
    folders=$XDG_RUNTIME_DIR
else
    echo "compile check: XDG_RUNTIME_DIR is no private folder of this user"
    exit 3
fi
# /run is often mounted so that nothing in it can be executed.
for folder in $folders; do
    clean
    if [ ! -d "$folder" ]; then
        mkdir -p "${folder%/*}"
        mkdir -m 0711 "$folder"
        made=$folder
    fi
    work=$(mktemp -d "$folder/compile.XXXXXXXXXX")
    cat >"$work/login" <<\LOGIN
#!/bin/sh
[ "${1:-}" != --can-run ] || exit 0
cd "${0%/*}" || exit 1
if [ "$1" = --can-read ]; then
    command -v "$2"
    exit
fi
TMPDIR=$PWD
export TMPDIR
nvcc=$1
shift
cat >check.cu <<\CUDA || exit 1
#include <cmath>
#include <cstdio>
#include <vector>

__global__ void roots(float *values) { values[threadIdx.x] = sqrtf(values[threadIdx.x]); }

static int says(const char *call, cudaError_t error)
{
    // The driver is missing (35), only a stub (34), sees no GPU (100), or cannot be reached (304, 999): nothing to compute on.
    const bool without = error == 34 || error == 35 || error == 100 || error == 304 || error == 999;
    std::printf("compile check: the program %s; %s: %s (%d)\n", without ? "started" : "cannot compute", call,
                cudaGetErrorString(error), (int)error);
    return without ? 0 : 2;
}

int main()
{
    int gpus = 0;
    cudaError_t error = cudaGetDeviceCount(&gpus);
    if (error != cudaSuccess)
        return says("cudaGetDeviceCount", error);
    for (int gpu = 0; gpu < gpus; gpu++) {
        std::vector<float> values(32);
        for (int i = 0; i < 32; i++)
            values[i] = float(i * i);
        float *there = 0;
        const size_t bytes = values.size() * sizeof(float);
        if ((error = cudaSetDevice(gpu)) != cudaSuccess)
            return says("cudaSetDevice", error);
        if ((error = cudaMalloc((void **)&there, bytes)) != cudaSuccess)
            return says("cudaMalloc", error);
        cudaMemcpy(there, values.data(), bytes, cudaMemcpyHostToDevice);
        roots<<<1, 32>>>(there);
        if ((error = cudaMemcpy(values.data(), there, bytes, cudaMemcpyDeviceToHost)) != cudaSuccess)
            return says("a kernel", error);
        cudaFree(there);
        for (int i = 0; i < 32; i++) {
            if (std::fabs(values[i] - float(i)) > 1e-3f) {
                std::printf("compile check: the program cannot compute; GPU %d has wrong results\n", gpu);
                return 2;
            }
        }
    }
    std::printf("compile check: the program started; it computes on %d GPUs\n", gpus);
    return 0;
}
CUDA
"$nvcc" "$@" -o check check.cu || exit 1
echo "compile check: compiled and linked"
# Without the persistence daemon, a host with many GPUs takes half a minute to start. A longer wait is the driver's fault.
timeout 60 ./check || {
    status=$?
    [ "$status" != 124 ] || echo "compile check: the program cannot compute; it did not end within 60 seconds"
    exit "$status"
}
LOGIN
    chmod 0700 "$work/login"
    ! "$work/login" --can-run || break
done
HOME=$work
export HOME
# Not with --no-new-privs: for every user the driver makes its devices by nvidia-modprobe, which is setuid.
as=
if [ "$root" ]; then
    user=$(id -u nobody || :)
    group=$(id -g nobody || :)
    as="setpriv --reuid=$user --regid=$group --clear-groups"
    chown -R "$user:$group" "$work" || :
    if ! $as "$shell" -l "$work/login" --can-read "$1"; then
        as=
        chown -R 0:0 "$work"
        echo "compile check: run as root, since the user nobody does not find $1 or cannot be used"
    fi
fi
$as "$shell" -l "$work/login" "$@"
