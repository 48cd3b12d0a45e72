#include "harness/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/fields.hpp"
#include "harness/overrides.hpp"
#include "harness/parse_parts.hpp"
#include "harness/text.hpp"
#include "harness/units.hpp"

namespace rehearse::harness {

namespace {

constexpr std::array<std::string_view, kWorldKinds> kWorldNames = {"sim", "memory", "processes"};
constexpr std::int64_t kMaxWorkers = 65'535;
constexpr std::int64_t kMaxSteps = 1'000'000'000;

void read_link(Fields& cluster, Cluster& into, Problems& problems) {
  const Value* value = cluster.table("link", "{ bandwidth = \"10Gbps\", latency = \"50us\" }");
  if (!value) return;
  Fields link(*value, kLinkKeys, "cluster.link", problems);
  if (auto bits = link.quantity("bandwidth", parse_bandwidth, "10Gbps")) {
    into.link_bits_per_s = *bits;
    if (*bits == 0) {
      link.refuse(link.find("bandwidth")->place, "`cluster.link.bandwidth` is zero, expected more");
    }
  }
  if (auto latency = link.quantity("latency", parse_duration, "50us")) into.link_latency = *latency;
}

void read_host(Fields& cluster, Cluster& into, Problems& problems) {
  const Value* value = cluster.table("host", "{ speed = \"50Gf\", memory_bandwidth = \"20GBps\" }");
  if (!value) return;
  Fields host(*value, kHostKeys, "cluster.host", problems);
  const auto positive = [&](std::string_view key, std::optional<std::int64_t> read,
                            std::int64_t& to) {
    if (!read) return;
    to = *read;
    if (*read > 0) return;
    host.refuse(host.find(key)->place,
                fmt::format("`{}` is zero, expected more", host.path_of(key)));
  };
  positive("speed", host.quantity("speed", parse_speed, "50Gf"), into.host_flops_per_s);
  positive("memory_bandwidth", host.quantity("memory_bandwidth", parse_bandwidth, "20GBps"),
           into.memory_bits_per_s);
}

/// False if nobody knows how many workers there are.
bool read_workers(Fields& fields, Cluster& cluster, const Problems& problems) {
  const std::size_t before = problems.size();
  cluster.hosts = fields.integer("hosts", 1, kMaxWorkers).value_or(1);
  cluster.workers_per_host = fields.integer("workers_per_host", 1, kMaxWorkers).value_or(1);
  if (cluster.workers() > kMaxWorkers) {
    fields.refuse(fields.place(), fmt::format("[cluster] has {} workers, expected at most {}",
                                              cluster.workers(), kMaxWorkers));
  }
  return problems.size() == before;
}

/// `workers` is how many there are at most: with a wrong number, what speaks of workers is not
/// wrong too.
Cluster read_cluster(Fields& root, std::int64_t& workers, Problems& problems) {
  Cluster cluster;
  const Value* value = root.find("cluster");
  workers = value ? kMaxWorkers : cluster.workers();
  if (!value || !root.table("cluster", "[cluster] with `hosts = 4`")) return cluster;
  Fields fields(*value, kClusterKeys, "cluster", problems);
  if (read_workers(fields, cluster, problems)) workers = cluster.workers();
  read_link(fields, cluster, problems);
  read_host(fields, cluster, problems);
  return cluster;
}

std::optional<OptionValue> option_value(const Value& value, const std::string& path,
                                        const OptionSpec& spec, Problems& problems) {
  constexpr double kLargest = 9'007'199'254'740'992;  // 2^53: exact in a double
  const double min = spec.min.value_or(-kLargest), max = spec.max.value_or(kLargest);
  if (spec.type() == OptionType::integer) {
    return integer_of(value, path, static_cast<std::int64_t>(min), static_cast<std::int64_t>(max),
                      problems);
  }
  if (spec.type() == OptionType::number) return number_of(value, path, min, max, problems);
  if (spec.type() == OptionType::boolean) {
    if (value.type == Value::Type::boolean) return value.boolean;
    problems.add(value.place, wrong_type(path, value, "true or false"));
    return std::nullopt;
  }
  const auto text = text_of_value(value, path, to_text(spec.default_value), problems);
  const auto& choices = spec.choices;
  if (text && !choices.empty() &&
      std::find(choices.begin(), choices.end(), *text) == choices.end()) {
    problems.add(value.place, unknown_name("value of `" + path + "`:", *text, choices));
    return std::nullopt;
  }
  return text;
}

Options read_options(Fields& job, const WorkloadInfo& workload, Problems& problems) {
  Options options = workload.defaults();
  const Value* value = job.table("options", "{ hidden = 32 }");
  if (!value) return options;
  std::vector<std::string> names;
  for (const OptionSpec& spec : workload.options) names.push_back(spec.name);
  for (const Entry& entry : value->entries) {
    const OptionSpec* spec = workload.option(entry.key);
    if (!spec) {
      const std::string what = fmt::format("option of workload \"{}\":", workload.name);
      problems.add(entry.place, unknown_name(what, entry.key, names));
      continue;
    }
    const std::string path = "job.options." + entry.key;
    if (auto read = option_value(entry.value, path, *spec, problems)) options[entry.key] = *read;
  }
  return options;
}

const WorkloadInfo* read_workload(Fields& job, const Catalogue& catalogue) {
  const std::string example = '"' + (catalogue.names().empty() ? "" : catalogue.names()[0]) + '"';
  if (!job.required("workload", "the name of a workload such as " + example)) return nullptr;
  const auto name = job.text("workload", example);
  if (!name) return nullptr;
  const WorkloadInfo* workload = catalogue.find(*name);
  if (workload) return workload;
  const Place& place = job.find("workload")->place;
  const bool later = contains(kLaterWorkloads, *name);
  job.refuse(place, later ? not_supported_yet(fmt::format("workload \"{}\"", *name))
                          : unknown_name("workload", *name, catalogue.names()));
  return nullptr;
}

/// The table; nothing if there is none, or several.
const Value* find_job(Fields& root) {
  const Value* value = root.required("job", "a table [job] with `workload = NAME`");
  if (!value || value->type != Value::Type::array) {
    return root.table("job", "[job] with `workload = NAME`");
  }
  root.refuse(value->place, not_supported_yet("`[[job]]`, several jobs on one cluster,"));
  return nullptr;
}

Job read_job(Fields& root, const Cluster& cluster, std::int64_t workers, const Catalogue& catalogue,
             Problems& problems) {
  Job job;
  const Value* value = find_job(root);
  if (!value) return job;
  Fields fields(*value, kJobKeys, "job", problems);
  job.steps = fields.integer("steps", 1, kMaxSteps).value_or(1);
  const std::size_t before = problems.size();
  const WorkloadInfo* workload = read_workload(fields, catalogue);
  if (!workload) return job;
  job.workload = workload->name;
  job.options = read_options(fields, *workload, problems);
  if (problems.size() != before) return job;
  if (const std::string why = workload->refusal(job.options); !why.empty()) {
    const bool given = fields.find("options");
    problems.add(fields.key_place(given ? "options" : "workload"), "`job.options`: " + why);
    return job;
  }
  const std::int64_t needed = workload->min_workers(job.options);
  if (needed > workers) {
    problems.add(
        fields.key_place("workload"),
        fmt::format("workload \"{}\" with these options needs {} workers, expected at most "
                    "{}: [cluster] has hosts = {} and workers_per_host = {}",
                    workload->name, needed, cluster.workers(), cluster.hosts,
                    cluster.workers_per_host));
  }
  return job;
}

void read_worlds(Fields& root, Scenario& scenario, Problems& problems) {
  const Value* value = root.find("worlds");
  if (!value) return;
  const std::string expected = "a list of worlds such as [\"sim\", \"processes\"]";
  if (value->type != Value::Type::array || value->items.empty()) {
    const bool is_array = value->type == Value::Type::array;
    root.refuse(value->place, is_array ? "`worlds` is empty, expected " + expected
                                       : wrong_type("worlds", *value, expected));
    return;
  }
  scenario.worlds.clear();
  for (const Value& item : value->items) {
    const auto text = text_of_value(item, "worlds", "\"sim\"", problems);
    if (!text) continue;
    const auto world = world_kind(*text);
    if (!world) {
      root.refuse(item.place, unknown_name("world", *text, world_names()));
    } else if (std::count(scenario.worlds.begin(), scenario.worlds.end(), *world) > 0) {
      root.refuse(item.place, fmt::format("world \"{}\" is named twice, expected once", *text));
    } else {
      scenario.worlds.push_back(*world);
    }
  }
}

void read_head(Fields& root, Scenario& scenario, Problems& problems) {
  if (root.required("format", "`format = 1`")) (void)root.integer("format", 1, 1);
  if (auto name = root.text("name", "\"quickstart\"")) {
    scenario.name = *name;
    if (name->empty())
      root.refuse(root.find("name")->place, "`name` is empty, expected a few words");
  }
  constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();
  if (auto seed = root.integer("seed", 0, kMaxSeed)) {
    scenario.seed = static_cast<std::uint64_t>(*seed);
  }
  read_worlds(root, scenario, problems);
}

std::string stem(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(file.ends_with(".toml") ? file.substr(0, file.size() - 5) : file);
}

Scenario read_scenario(const Value& document, const Catalogue& catalogue, Problems& problems) {
  Scenario scenario;
  Fields root(document, kScenarioKeys, "", problems);
  read_head(root, scenario, problems);
  std::int64_t workers = 0;
  scenario.cluster = read_cluster(root, workers, problems);
  scenario.job = read_job(root, scenario.cluster, workers, catalogue, problems);
  ParseContext context{catalogue, workers, problems};
  if (const Value* faults = root.find("fault")) scenario.faults = read_faults(*faults, context);
  if (const Value* expect = root.table("expect", "[expect] with `gradients = \"bitwise\"`")) {
    scenario.expect = read_expect(*expect, context);
  }
  return scenario;
}

}  // namespace

std::string_view name(WorldKind world) { return kWorldNames.at(static_cast<std::size_t>(world)); }

std::optional<WorldKind> world_kind(std::string_view text) {
  for (std::size_t i = 0; i < kWorldNames.size(); ++i) {
    if (kWorldNames[i] == text) return static_cast<WorldKind>(i);
  }
  return std::nullopt;
}

Parsed parse_scenario(std::string_view text, const std::string& source,
                      const std::vector<std::string>& overrides, const Catalogue& catalogue) {
  Problems problems;
  Parsed parsed;
  Value document = parse_toml(text, source, problems);
  if (problems.empty()) {
    for (const std::string& argument : overrides) apply_override(argument, document, problems);
  }
  if (problems.empty()) {
    Scenario scenario = read_scenario(document, catalogue, problems);
    if (scenario.name.empty()) scenario.name = stem(source);
    if (problems.empty()) parsed.scenario = std::move(scenario);
  }
  parsed.problems = problems.sorted();
  return parsed;
}

Parsed load_scenario(const std::string& file, const std::vector<std::string>& overrides,
                     const Catalogue& catalogue) {
  Problems problems;
  const std::string text = read_scenario_text(file, problems);
  if (!problems.empty()) return {std::nullopt, problems.sorted()};
  return parse_scenario(text, file, overrides, catalogue);
}

}  // namespace rehearse::harness
