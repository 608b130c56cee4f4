# shellcheck shell=bash
# What tools/quickstart and tools/check share: packages, CMake, the compiler, the number of jobs.
# Sourced, not run; the caller has `set -euo pipefail` and stands in the root of the repository.

# What it takes to build dlprobe itself. One list: nothing is installed that is not named here or
# in tools/check.
BUILD_PACKAGES=(cmake ninja-build g++ pkg-config libcli11-dev libelf-dev libfmt-dev liblzma-dev libpugixml-dev libtomlplusplus-dev libunwind-dev
                libncurses-dev nlohmann-json3-dev)
# What it takes to build the reference loader as well.
LOADER_PACKAGES=(libtorch-dev libopencv-dev)
# What it takes to build for aarch64 elsewhere, and to run there what the build runs: dlprobe, which writes its completions.
CROSS_PACKAGES=(g++-aarch64-linux-gnu qemu-user)
# Libraries for aarch64 beside those of BUILD_PACKAGES: of the tests, and what those need. They go into build/sysroot-aarch64.
SYSROOT_PACKAGES=(libgtest-dev libgmock-dev libpugixml1v5 zlib1g-dev)
# What the sanitizers and fuzzers are built with: in half of the time that g++ 12 takes for it.
LLVM=19
# shellcheck disable=SC2034  # used by tools/check and tools/fuzz
CLANG_PACKAGES=("clang-$LLVM" "libclang-rt-$LLVM-dev")

DLP_INSTALL=yes        # "no": refuse instead of installing (--no-install)
DLP_LISTS_FRESH=no     # apt-get update is run once, and only if something is missing
DLP_LOADER=ON          # becomes OFF where there is no libtorch or OpenCV to build with

say() { printf '== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# The packages among the arguments that are not installed, one per line.
missing_packages() {
  local package
  for package in "$@"; do
    if [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]]; then
      printf '%s\n' "$package"
    fi
  done
}

# Runs a command as root. Asks for a password only where a person can give one.
as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif [[ -t 0 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

# Ends the script if packages cannot be installed here, with the command that would do it.
require_right_to_install() {
  local by_hand="install them by hand: apt-get install --no-install-recommends $*"
  command -v apt-get >/dev/null ||
    die "needs Debian 12 or Ubuntu 22.04/24.04 (no apt-get here); install what these are called here: $*"
  [[ $DLP_INSTALL == yes ]] || die "packages are missing and --no-install was given; $by_hand"
  [[ $(id -u) == 0 ]] && return
  command -v sudo >/dev/null || die "packages are missing, and this is neither root nor is there sudo; $by_hand"
  [[ -t 0 ]] || sudo -n true 2>/dev/null ||
    die "packages are missing, and sudo would ask for a password where nobody can type it; $by_hand"
}

refresh_package_lists() {
  [[ $DLP_LISTS_FRESH == yes ]] && return
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q update ||
    die "apt-get update failed; see above"
  DLP_LISTS_FRESH=yes
}

# install_packages PURPOSE PACKAGE...: installs those that are missing, and says which.
install_packages() {
  local purpose=$1
  shift
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [[ ${#missing[@]} == 0 ]]; then
    note "packages for $purpose: all there"
    return
  fi
  note "packages for $purpose, to be installed: ${missing[*]}"
  require_right_to_install "${missing[@]}"
  refresh_package_lists
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q -y \
    install --no-install-recommends "${missing[@]}" ||
    die "could not install: ${missing[*]}; see above"
}

# Whether every package named is installed or can be had from the package lists.
packages_available() {
  local package missing
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} == 0 ]] && return
  require_right_to_install "${missing[@]}"
  refresh_package_lists
  for package in "${missing[@]}"; do
    # Not through a pipe: `grep -q` ends early, and pipefail takes the broken pipe for a failure.
    [[ $(apt-cache policy "$package") =~ Candidate:\ [^\(] ]] || return 1
  done
}

# at_least HAVE WANT: whether version HAVE is WANT or newer.
at_least() { [[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]; }

# Ubuntu 22.04 has CMake 3.22; the presets need 3.25. A newer one from pip stays inside build/.
ensure_cmake() {
  local have
  have=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p') || true
  at_least "${have:-0}" 3.25 && return
  note "CMake ${have:-(none)} is older than 3.25: a newer one goes into build/cmake (pip)"
  if [[ ! -x build/cmake/bin/cmake ]]; then
    install_packages "a newer CMake" python3-venv
    /usr/bin/python3 -m venv build/cmake
    build/cmake/bin/pip install --quiet 'cmake>=3.25' || die "pip could not install cmake; see above"
  fi
  PATH=$PWD/build/cmake/bin:$PATH
}

# std::expected needs GCC 12; Ubuntu 22.04's g++ is 11. A compiler chosen with CXX is left alone.
ensure_compiler() {
  [[ -z ${CXX:-} ]] || return 0
  at_least "$(g++ -dumpfullversion)" 12 && return
  note "g++ $(g++ -dumpfullversion) is older than 12: using g++-12"
  install_packages "the compiler" g++-12
  export CXX=g++-12
}

# Installs libtorch and OpenCV, or sets DLP_LOADER=OFF and says what is lost. Somebody who names
# another libtorch in CMAKE_PREFIX_PATH needs only OpenCV from us.
ensure_loader_packages() {
  local packages=("${LOADER_PACKAGES[@]}")
  [[ ${CMAKE_PREFIX_PATH:-} == */torch* ]] && packages=(libopencv-dev)
  if packages_available "${packages[@]}"; then
    install_packages "the reference loader" "${packages[@]}"
    return
  fi
  # shellcheck disable=SC2034  # the sourcing script reads it
  DLP_LOADER=OFF
  note "this system has no package for one of: ${packages[*]}."
  note "Building without the reference loader: --pid and -- CMD work, \`dlprobe shm\` alone does not."
  note "To have it, name another libtorch: CMAKE_PREFIX_PATH=<site-packages>/torch $0"
}

# Everything that a build needs; leaves DLP_LOADER, PATH and CXX as the build wants them.
prepare_build() {
  say "Packages"
  install_packages "the build" "${BUILD_PACKAGES[@]}"
  ensure_loader_packages
  prepare_tools
}

# The same for a build that is to have no reference loader.
prepare_build_without_loader() {
  say "Packages"
  install_packages "the build" "${BUILD_PACKAGES[@]}"
  # shellcheck disable=SC2034  # the sourcing script reads it
  DLP_LOADER=OFF
  prepare_tools
}

# A build for aarch64 on another machine.
prepare_cross_build() {
  prepare_build_without_loader
  install_packages "aarch64" "${CROSS_PACKAGES[@]}"
  ensure_sysroot
}

# Fetches the libraries for aarch64 from the mirrors of apt, by lists of its own: nothing of the system is changed.
ensure_sysroot() {
  local root=$PWD/build/sysroot-aarch64 package packages=("${SYSROOT_PACKAGES[@]}")
  for package in "${BUILD_PACKAGES[@]}"; do
    [[ $package != *-dev ]] || packages+=("$package")
  done
  if printf '%s\n' "${packages[@]}" | cmp --quiet - "$root/installed" 2>/dev/null; then
    note "libraries for aarch64: all there"
    return
  fi
  note "libraries for aarch64, into build/sysroot-aarch64: ${packages[*]}"
  rm -rf "$root"
  mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial"
  : >"$root/apt/status"
  local apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
    -o "Dir::State=$root/apt" -o "Dir::State::status=$root/apt/status" -o "Dir::Cache=$root/apt/cache")
  "${apt[@]}" update || die "apt-get update for arm64 failed; see above"
  (cd "$root/apt" && "${apt[@]}" download "${packages[@]}") ||
    die "the mirrors of apt lack libraries for arm64 (those of Debian 12 have them); see above"
  for package in "$root"/apt/*.deb; do
    dpkg-deb --extract "$package" "$root"
  done
  rm -rf "$root/apt"
  printf '%s\n' "${packages[@]}" >"$root/installed"
}

prepare_tools() {
  ensure_cmake
  ensure_compiler
  if [[ -z ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]] && command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache
    # One cache for every clone of this tree, wherever it lies.
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  fi
}

# One job per core, and no more than memory allows: a file that includes libtorch takes 2 GB.
job_count() {
  local cores available_kb by_memory
  cores=$(nproc)
  available_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  by_memory=$((available_kb / (2 * 1024 * 1024)))
  ((by_memory >= 1)) || by_memory=1
  printf '%s\n' $((cores < by_memory ? cores : by_memory))
}

# What is checked out: "a0ce7a0", "a0ce7a0 changed"; nothing where this is no git repository.
commit_name() {
  local git=(git -c "safe.directory=$PWD") commit
  commit=$("${git[@]}" rev-parse --short=10 HEAD 2>/dev/null) || return 0
  "${git[@]}" diff --quiet HEAD 2>/dev/null || commit+=" changed"
  printf '%s' "$commit"
}

# build_preset PRESET TARGET [CMAKE-OPTION...]: configures build/PRESET and builds TARGET in it.
build_preset() {
  local preset=$1 target=$2
  shift 2
  say "Build: preset $preset, target $target, $(job_count) jobs"
  cmake --preset "$preset" "-DDLPROBE_COMMIT=$(commit_name)" "$@" || die "configuring the preset $preset failed; see above"
  cmake --build "build/$preset" --target "$target" -j "$(job_count)" ||
    die "building the preset $preset failed; see above"
}
