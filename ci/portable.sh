#!/usr/bin/env bash
# ci/portable.sh [-a ARCH] [-o FOLDER] [-b BUILD] [--data FOLDER] [--tests] - makes a folder that
# runs bt-bench on another machine without installation
#
#   -a ARCH        compute capability of the CUDA backend, default 90a; none leaves the backend out.
#                  Without nvcc the default is none
#   -o FOLDER      output folder, default build-portable/bt-bench; must be new, empty or an earlier output
#   -b BUILD       packs this build folder as it is instead of building one
#   --data FOLDER  prepared data to include, at the same path under the new folder
#   --tests        includes the test programs, in tests/, and if the compiler is built, the
#                  code of the compiled steps that they run, in tests/cache
#
# Laid out as  bin/ (bt-bench, libblutrain.so, libbt_cuda.so)  lib/ (what a basic Debian 12, Ubuntu
# 24.04 or newer lacks)  suites/  harness/peers/  data/. Everything is stripped and finds the
# other folders by $ORIGIN.
# cuBLASLt has several hundred MB and is not included: the target's is found in
# /usr/local/cuda/lib64, on the loader's paths or LD_LIBRARY_PATH; without it the CUDA backend
# reports that it is unavailable. Limit: 64 MiB without data and tests; more is an error.
# Exit 0 done, 1 failed or too big, 2 usage, 4 a tool is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd_from=$PWD
limit_mib=64
arch=
out=$root/build-portable/bt-bench
build=
data=()
with_tests=false

# Surely there on a plain Debian or Ubuntu: the C library, what apt itself needs of gcc's, and the
# driver's and CUDA's libraries, which belong to the target.
stays='^(linux-vdso|ld-linux[-a-z0-9_]*|libc|libm|libdl|libpthread|librt|libresolv|libutil|libgcc_s|libstdc\+\+|libcuda|libnvidia-[a-z]+|libcublas|libcublasLt|libnvJitLink)\.so'

usage() {
    echo "usage: ci/portable.sh [-a ARCH|none] [-o FOLDER] [-b BUILD] [--data FOLDER] [--tests]" >&2
    exit 2
}

absolute() {
    case $1 in
    /*) echo "$1" ;;
    *) echo "$cd_from/$1" ;;
    esac
}

while [ $# -gt 0 ]; do
    case $1 in
    -a | -o | -b | --data)
        [ $# -ge 2 ] || usage
        case $1 in
        -a) arch=$2 ;;
        -o) out=$(absolute "$2") ;;
        -b) build=$(absolute "$2") ;;
        --data) data+=("$(absolute "$2")") ;;
        esac
        shift
        ;;
    --tests) with_tests=true ;;
    *) usage ;;
    esac
    shift
done
for tool in patchelf strip ldd; do
    command -v $tool >/dev/null || {
        echo "portable: $tool is missing: ci/setup.sh test installs it" >&2
        exit 4
    }
done
if [ -e "$out" ] && [ ! -e "$out/.bt-portable" ] && [ -n "$(ls -A "$out")" ]; then
    echo "portable: $out is not empty and was not created by this script; not overwritten" >&2
    exit 2
fi

has_nvcc() {
    command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]
}

build_product() {
    local cuda=(-DBT_CUDA=OFF) targets=(product)
    if [ -z "$arch" ]; then
        if has_nvcc; then arch=90a; else arch=none; fi
    fi
    [ "$arch" = none ] || cuda=(-DBT_CUDA=ON "-DBT_CUDA_ARCHS=$arch")
    build=$root/build-portable/$arch
    ! $with_tests || targets=(all)
    cmake -S "$root" --preset release -B "$build" "${cuda[@]}" >&2
    cmake --build "$build" --target "${targets[@]}" >&2
}

# Copies the libraries that FILE needs and the target may lack, and theirs (ldd lists them all).
take_libraries() { # file...
    local name path missing=0
    while read -r name path; do
        if [[ $name =~ $stays ]] || [ -e "$out/bin/$name" ] || [ -e "$out/lib/$name" ]; then
            continue
        elif [ "$path" = not ]; then
            echo "portable: the library $name is needed, but was not found on this machine" >&2
            missing=1
        else
            cp -L "$path" "$out/lib/$name"
        fi
    done < <(ldd "$@" | awk '$2 == "=>" { print $1, $3 }' | sort -u)
    return $missing
}

# Strips, and makes the libraries be found relative to the file.
relocate() { # rpath file...
    local rpath=$1
    shift
    for file in "$@"; do
        chmod u+w "$file"
        strip --strip-unneeded "$file"
        patchelf --set-rpath "$rpath" "$file"
    done
}

copy_tests() {
    mkdir -p "$out/tests"
    find "$build/tests" -maxdepth 1 -type f -executable -name '*_test' -exec cp {} "$out/tests/" \;
    # shellcheck disable=SC2016 # $ORIGIN is the loader's
    relocate '$ORIGIN/../bin:$ORIGIN/../lib' "$out"/tests/*_test
    take_libraries "$out"/tests/*_test
    mkdir -p "$out/tests/golden"
    cp "$root"/tests/golden/*.json "$out/tests/golden/"
}

# The conformance tests of generated code find it by BT_CACHE_DIR.
copy_code() {
    local number test
    [ -e "$build/bin/libbt_mlir.so" ] || return 0
    for number in ${arch//;/ }; do
        [[ ${number%a} =~ ^(80|89|90)$ ]] || continue
        BT_CACHE_DIR=$out/tests/cache "$build/bin/bt-bench" compile \
            "$root/tests/conformance/compiled.json" --profile gpu --target "sm_${number%a}" >&2
        for test in products early_launch; do
            BT_CACHE_DIR=$out/tests/cache "$build/tests/conformance_${test}_test" \
                "sm_${number%a}" >&2
        done
    done
}

size_mib() { # file...
    du -sc --apparent-size -B 1 "$@" | awk 'END { printf "%.1f", $1 / 1048576 }'
}

# The newest glibc symbol that any file needs: the oldest C library that the folder runs with.
glibc_needed() {
    find "$out/bin" "$out/lib" -type f -exec objdump -T {} + 2>/dev/null |
        grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1
}

[ -n "$build" ] || build_product
[ -x "$build/bin/bt-bench" ] || {
    echo "portable: $build does not contain bin/bt-bench" >&2
    exit 1
}
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib"
: >"$out/.bt-portable"
cp -L "$build/bin/bt-bench" "$build/bin/libblutrain.so" "$out/bin/"
[ ! -e "$build/bin/libbt_cuda.so" ] || cp -L "$build/bin/libbt_cuda.so" "$out/bin/"
take_libraries "$out"/bin/*
# shellcheck disable=SC2016 # $ORIGIN is the loader's
{
    # The old-style DT_RPATH would hold for libraries of libraries too, but LD_LIBRARY_PATH could
    # not overrule it; so each file names its neighbours itself.
    relocate '$ORIGIN:$ORIGIN/../lib' "$out/bin/bt-bench" "$out/bin/libblutrain.so"
    [ ! -e "$out/bin/libbt_cuda.so" ] ||
        relocate '$ORIGIN:$ORIGIN/../lib:/usr/local/cuda/lib64' "$out/bin/libbt_cuda.so"
    for library in "$out"/lib/*; do
        [ ! -e "$library" ] || relocate '$ORIGIN' "$library"
    done
}
cp -r "$root/suites" "$out/suites"
mkdir -p "$out/harness"
cp -r "$root/harness/peers" "$out/harness/peers"
size=$(size_mib "$out")
for folder in "${data[@]}"; do
    place=$out/${folder#"$root/"}
    mkdir -p "$(dirname "$place")"
    cp -rL "$folder" "$place"
done
if $with_tests; then
    copy_tests
    copy_code
fi
echo "$out: $size MiB, needs glibc $(glibc_needed | sed "s/GLIBC_//"); run bin/bt-bench"
if [ "${size%.*}" -ge $limit_mib ]; then
    echo "portable: more than $limit_mib MiB; the largest files:" >&2
    (cd "$out" && find bin lib -type f -printf '%s %p\n' | sort -rn | head -n 5) >&2
    exit 1
fi
