# Debian packages. Sourced by the wrapper and by CI; uses say and fail.

build_packages=(
  g++ cmake ninja-build ccache mold
  ca-certificates python3-pip python3-venv  # only to fetch libtorch
  libboost-context-dev libcli11-dev libfmt-dev libsimgrid-dev libtomlplusplus-dev nlohmann-json3-dev
  libbenchmark-dev libgmock-dev libgtest-dev librapidcheck-dev
)
lint_packages=(clang-format-14 clang-tidy-16 git python3)

# Prints those of its arguments that are not installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p') || true
  local package
  for package; do
    grep -qxF -- "$package" <<<"$installed" || echo "$package"
  done
}

# Runs a command as root.
as_root() {
  if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

# Installs those of its arguments that are missing; says so first.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "not a Debian system: taking it that the counterparts of these are installed: $*"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  local by_hand="apt-get install --no-install-recommends ${missing[*]}"
  if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
    fail "these Debian packages are missing, and there is neither root nor sudo here. As root: $by_hand"
  fi
  say "installing Debian packages: ${missing[*]}"
  run_apt "${missing[@]}" >&2 || fail "apt-get could not install them (see above). By hand: $by_hand"
}

run_apt() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -q)
  # A package manager that was killed at work wants this first.
  if [[ -n $(dpkg --audit 2>&1) || -n $(ls -A /var/lib/dpkg/updates 2>/dev/null) ]]; then
    as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a
    as_root "${apt[@]}" -y --fix-broken install
  fi
  as_root "${apt[@]}" update || say "apt-get update failed; trying with the lists that are here"
  as_root "${apt[@]}" -y install --no-install-recommends "$@"
}
