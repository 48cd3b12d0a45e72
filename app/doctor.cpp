#include "app/doctor.hpp"

#include <fmt/format.h>

#include <ostream>

#include "app/machine.hpp"

namespace rehearse::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Finding> find_all(const Setup& setup) {
  std::vector<Finding> all = {{"compiler", compiler_text(), ""},
                              {"machine", machine_text(), ""},
                              {"libtorch", setup.identity.torch, "no scenario can be run"}};
  for (const harness::WorldKind world :
       {harness::WorldKind::sim, harness::WorldKind::memory, harness::WorldKind::processes}) {
    const auto missing = setup.runner.missing(world);
    all.push_back({fmt::format("world {}", harness::name(world)), missing ? "" : "can be run",
                   fmt::format("its scenarios are skipped: {}", missing.value_or(""))});
  }
  all.insert(all.end(), setup.findings.begin(), setup.findings.end());
  all.push_back({"CUDA driver", find_library("libcuda.so.1"), "runs use the CPU only"});
  all.push_back({"NCCL", find_library("libnccl.so.2"), "no collectives between GPUs"});
  return all;
}

}  // namespace

int doctor_command(bool json, const Setup& setup, const Streams& streams) {
  Json rows = Json::array();
  for (const Finding& finding : find_all(setup)) {
    const bool absent = finding.found.empty();
    rows.push_back(Json::object({{"what", finding.what},
                                 {"found", absent ? Json() : Json(finding.found)},
                                 {"costs", absent ? Json(finding.costs) : Json()}}));
    if (json) continue;
    streams.out << fmt::format("{:<16} {}\n", finding.what,
                               absent ? "absent: " + finding.costs : finding.found);
  }
  if (json) streams.out << rows.dump(2) << '\n';
  return 0;
}

}  // namespace rehearse::cli
