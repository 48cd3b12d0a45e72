# Configures and builds build/release. Sourced; uses root, build, stamp, torch_dir, say and fail.

# A compiler at work on torch's headers takes up to 1.7 GB.
build_jobs() {
  local by_memory
  by_memory=$(awk '/^MemAvailable/ { print int($2 / 2097152) }' /proc/meminfo)
  local jobs
  jobs=$(nproc)
  [[ $by_memory -ge $jobs ]] || jobs=$by_memory
  [[ $jobs -ge 1 ]] || jobs=1
  echo "$jobs"
}

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null; }

configure() {
  if [[ -e $build/CMakeCache.txt && $(cached CMAKE_HOME_DIRECTORY) != "$root" ]]; then
    rm -rf "$build"  # the checkout was moved or copied
  fi
  if [[ -e $build/build.ninja && $(cached TORCH_DIR) == "$torch_dir" &&
        ! $root/CMakePresets.json -nt $build/build.ninja ]]; then
    return
  fi
  say "configuring build/release"
  local log=$root/build/configure.log
  cmake -S "$root" --preset release "-DTORCH_DIR=$torch_dir" >"$log" 2>&1 ||
    cmake -S "$root" --preset release "-DTORCH_DIR=$torch_dir" --fresh >"$log" 2>&1 ||
    { cat "$log" >&2; fail "cmake could not configure the build (see above)"; }
}

# Builds a target, and notes when the build that is now up to date began.
build_target() {  # TARGET
  local began=$root/build/.build-began
  touch "$began"
  configure
  [[ -z ${REHEARSE_NO_CCACHE-} ]] || export CCACHE_DISABLE=1
  CCACHE_BASEDIR=$root NINJA_STATUS='[%f/%t] ' \
    cmake --build "$build" --target "$1" -- -j "$(build_jobs)" >&2 ||
    fail "the build failed (see above)"
  printf '%s\n' "$(identity)" "$torch_dir/lib/libtorch_cpu.so" >"$stamp.part"
  touch -r "$began" "$stamp.part"
  mv "$stamp.part" "$stamp"
}
