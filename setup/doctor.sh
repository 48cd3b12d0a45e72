# What this machine has, what it lacks and what that costs. Changes nothing. Sourced.

row() { printf '%-10s %-8s %s\n' "$@"; }
found() { row "$1" found "$2"; }
absent() { row "$1" absent "$2"; }

# A command's first line of --version, or what its absence costs.
tool() {  # LABEL COMMAND COST
  if command -v "$2" >/dev/null; then
    found "$1" "$("$2" --version 2>/dev/null | head -1)"
  else
    absent "$1" "$3"
  fi
}

library() { ldconfig -p 2>/dev/null | sed -n "s/^\t$1 .* => //p" | head -1; }

doctor_packages() {
  command -v dpkg-query >/dev/null ||
    { row packages unknown "not a Debian system: install the counterparts by hand"; return; }
  local missing
  mapfile -t missing < <(missing_packages "${build_packages[@]}")
  if [[ ${#missing[@]} -eq 0 ]]; then
    found packages "all ${#build_packages[@]} Debian packages"
  elif [[ $(id -u) -eq 0 ]] || command -v sudo >/dev/null; then
    absent packages "${missing[*]}: installed at the first start"
  else
    absent packages "as root: apt-get install --no-install-recommends ${missing[*]}"
  fi
}

doctor_torch() {
  if [[ -n ${REHEARSE_TORCH-} ]]; then
    use_named_torch
    if [[ -n $torch_problem ]]; then row libtorch unusable "$torch_problem"; return; fi
    found libtorch "$(version_of_torch "$torch_dir") in $torch_dir (named by REHEARSE_TORCH)"
  elif [[ -z $(missing_wheels) ]]; then
    found libtorch "$(version_of_torch "$(site_packages)/torch") in $(site_packages)/torch"
  else
    absent libtorch "$torch_version is fetched from PyPI at the first start (550 MB), or name one with REHEARSE_TORCH"
  fi
}

doctor_simgrid() {
  local version
  version=$(sed -n 's/.*SIMGRID_VERSION_STRING.*SimGrid version \([0-9.]*\).*/\1/p' \
    /usr/include/simgrid/version.h 2>/dev/null) || true
  if [[ -n $version ]]; then
    found SimGrid "$version"
  else
    absent SimGrid "no sim world without it; Debian's is installed at the first start"
  fi
}

doctor_gpu() {
  local nvcc=/usr/local/cuda/bin/nvcc gpus nccl
  command -v nvcc >/dev/null && nvcc=$(command -v nvcc)
  if [[ -x $nvcc ]]; then
    found CUDA "toolkit $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p') ($nvcc)"
  else
    absent CUDA "no toolkit: the cuda preset cannot be built; nothing else needs it"
  fi
  gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU') || true
  if [[ ${gpus:-0} -gt 0 ]]; then
    found GPU "$gpus: $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)"
  else
    absent GPU "no --device cuda; CPUs do everything else"
  fi
  nccl=$(library 'libnccl\.so\.2')
  if [[ -n $nccl ]]; then
    found NCCL "$(readlink -f "$nccl")"
  else
    absent NCCL "no collectives between GPUs"
  fi
}

doctor_build() {
  if ! is_built; then
    absent build "made at the first start"
  elif [[ -n $(changed_source) ]]; then
    row build old "sources changed since; brought up to date at the next start"
  else
    found build "$program"
  fi
}

doctor() {
  row system "" "$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME"), $(nproc) cores, $(uname -m)"
  tool compiler g++ "installed at the first start"
  tool CMake cmake "installed at the first start"
  tool Ninja ninja "installed at the first start"
  doctor_packages
  doctor_torch
  doctor_simgrid
  doctor_gpu
  tool ccache ccache "rebuilds take longer; installed at the first start"
  tool mold mold "linking takes longer; installed at the first start"
  doctor_build
}
