# libtorch: the one that REHEARSE_TORCH names, or three wheels in .venv. Sourced; uses say and fail.

torch_version=2.11.0
# libtorch_cpu.so needs libcupti and libcudart, and nothing else of CUDA.
torch_wheels=("torch==$torch_version" "nvidia-cuda-cupti==13.0.*" "nvidia-cuda-runtime==13.0.*")

# The version of the libtorch in a `torch` folder, without the part after the plus; or nothing.
version_of_torch() {  # FOLDER
  sed -n "s/^__version__ = ['\"]\([0-9.]*\).*/\1/p" "$1/version.py" 2>/dev/null
}

# The `torch` folder that REHEARSE_TORCH means: it may be that folder, the one around it, or a
# Python interpreter that can import torch. Prints nothing if there is none.
named_torch() {
  local name=$REHEARSE_TORCH folder
  for folder in "$name" "$name/torch"; do
    [[ -f $folder/version.py ]] && readlink -f "$folder" && return
  done
  [[ ! -d $name ]] && name=$(command -v -- "$name") || return 0
  "$name" -I -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' \
    2>/dev/null || true
}

# Sets torch_dir to what REHEARSE_TORCH names, or sets torch_problem.
use_named_torch() {
  torch_dir=$(named_torch) torch_problem=
  if [[ -z $torch_dir ]]; then
    torch_problem="REHEARSE_TORCH=$REHEARSE_TORCH is neither a torch folder nor a Python that has torch"
    return
  fi
  local version
  version=$(version_of_torch "$torch_dir")
  if [[ $version != "$torch_version" ]]; then
    torch_problem="REHEARSE_TORCH=$REHEARSE_TORCH has PyTorch ${version:-of unknown version}, $torch_version is needed"
  elif [[ ! -e $torch_dir/lib/libtorch_cpu.so || ! -d $torch_dir/include/ATen ]]; then
    torch_problem="REHEARSE_TORCH=$REHEARSE_TORCH lacks lib/libtorch_cpu.so or include/ATen"
  fi
}

# The folder where .venv keeps packages, if there is one.
site_packages() {
  local folder
  for folder in "$root"/.venv/lib/python3*/site-packages; do
    [[ -d $folder ]] && echo "$folder" && return
  done
  return 0
}

# Whether a wheel is wholly there: pip writes INSTALLER after the files.
has_wheel() {  # NAME==VERSION, where the version may end in a star
  local name=${1%%==*} version=${1##*==}
  compgen -G "$(site_packages)/${name//-/_}-$version.dist-info/INSTALLER" >/dev/null
}

missing_wheels() {
  local wheel
  for wheel in "${torch_wheels[@]}"; do
    has_wheel "$wheel" || echo "$wheel"
  done
}

make_venv() {
  "$root/.venv/bin/python" -m pip --version >/dev/null 2>&1 && return
  local python=/usr/bin/python3  # the one that Debian's python3-venv belongs to
  [[ -x $python ]] || python=python3
  "$python" -m venv --clear "$root/.venv" >&2 || fail "could not make the folder .venv (see above)"
}

install_wheels() {  # WHEEL...
  local wheel name site
  site=$(site_packages)
  for wheel; do  # halves that a killed pip left behind
    name=${wheel%%==*}
    rm -rf "$site/${name//-/_}"-*.dist-info
  done
  # A killed pip leaves its downloads where TMPDIR says.
  local scratch=$root/build/pip.part
  rm -rf "$scratch" && mkdir -p "$scratch"
  TMPDIR=$scratch "$root/.venv/bin/python" -m pip install --no-deps --no-cache-dir \
    --disable-pip-version-check "$@" >&2 ||
    fail "pip could not install $* (see above). An installed PyTorch $torch_version can be named with REHEARSE_TORCH"
  rm -rf "$scratch"
}

# Sets torch_dir.
find_or_install_torch() {
  if [[ -n ${REHEARSE_TORCH-} ]]; then
    use_named_torch
    [[ -z $torch_problem ]] || fail "$torch_problem"
    return
  fi
  local missing
  mapfile -t missing < <(missing_wheels)
  if [[ ${#missing[@]} -gt 0 ]]; then
    say "installing libtorch $torch_version into .venv (a download of about 550 MB)"
    make_venv
    install_wheels "${missing[@]}"
  fi
  torch_dir=$(site_packages)/torch
}
