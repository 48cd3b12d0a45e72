#include "harness/runner/job_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hpp"

namespace rehearse::harness {
namespace {

OptionValue value_from(const nlohmann::json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  return json.get<std::string>();
}

}  // namespace

std::int64_t bytes_per_s(std::int64_t bits_per_s) {
  return std::max<std::int64_t>(1, bits_per_s / 8);
}

JobSpec job_of(const Scenario& scenario) {
  JobSpec job;
  job.workload = scenario.job.workload;
  job.steps = scenario.job.steps;
  job.options = rehearse::Options(scenario.job.options);
  return job;
}

std::string to_text(const JobSpec& job) {
  nlohmann::json json{
      {"workload", job.workload}, {"steps", job.steps}, {"logical_shards", job.logical_shards}};
  json["options"] = nlohmann::json::object();
  for (const auto& [name, value] : job.options.values()) {
    std::visit([&, &key = name](const auto& held) { json["options"][key] = held; }, value);
  }
  return json.dump();
}

JobSpec job_from(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    JobSpec job;
    job.workload = json.at("workload").get<std::string>();
    job.steps = json.at("steps").get<std::int64_t>();
    job.logical_shards = json.at("logical_shards").get<int>();
    OptionValues values;
    for (const auto& [name, value] : json.at("options").items()) values[name] = value_from(value);
    job.options = rehearse::Options(std::move(values));
    return job;
  } catch (const nlohmann::json::exception& error) {
    throw Error(Code::bad_argument, std::string("--job is no job: ") + error.what());
  }
}

#ifdef REHEARSE_HAS_SIMGRID
sim::ClusterSpec sim_cluster(const Cluster& cluster) {
  sim::ClusterSpec spec;
  spec.hosts = static_cast<int>(cluster.hosts);
  spec.latency = cluster.link_latency;
  spec.bandwidth_bytes_per_s = bytes_per_s(cluster.link_bits_per_s);
  spec.speed_flops_per_s = cluster.host_flops_per_s;
  spec.memory_bytes_per_s = bytes_per_s(cluster.memory_bits_per_s);
  return spec;
}
#endif

}  // namespace rehearse::harness
