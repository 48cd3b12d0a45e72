#include "harness/explain.hpp"

#include <fmt/format.h>

#include "harness/units.hpp"
#include "harness/verdict_checks.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::harness {
namespace {

/// Lines under one heading; the heading stands beside the first.
class Plan {
 public:
  void add(std::string_view heading, const std::string& line) {
    const bool repeated = heading == last_;
    text_ += fmt::format("{:<11}{}\n", repeated ? "" : heading, line);
    last_ = heading;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_, last_;
};

std::string counted(std::int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string worker_range(const Cluster& cluster) {
  return cluster.workers() == 1 ? "w0" : fmt::format("w0 to w{}", cluster.workers() - 1);
}

void add_cluster(const Cluster& cluster, Plan& plan) {
  plan.add("cluster",
           fmt::format("{} with {} each: {}", counted(cluster.hosts, "host"),
                       counted(cluster.workers_per_host, "worker"), worker_range(cluster)));
  plan.add("cluster", fmt::format("link {}, latency {}, between any two hosts",
                                  format_bandwidth(cluster.link_bits_per_s),
                                  format_duration(cluster.link_latency)));
  plan.add("cluster", fmt::format("host {}, memory {}; both count in sim and memory",
                                  format_speed(cluster.host_flops_per_s),
                                  format_bandwidth(cluster.memory_bits_per_s)));
}

void add_job(const Job& job, const WorkloadInfo& workload, Plan& plan) {
  plan.add("job",
           fmt::format("{}, {}: {}", job.workload, counted(job.steps, "step"), workload.help));
  for (const OptionSpec& spec : workload.options) {
    const OptionValue& value = job.options.at(spec.name);
    const bool is_default = value == spec.default_value;
    plan.add("job", fmt::format("{} = {}{}: {}", spec.name, to_text(value),
                                is_default ? " (default)" : "", spec.help));
  }
  plan.add("job",
           fmt::format("needs {} at least", counted(workload.min_workers(job.options), "worker")));
}

/// Whose step: `rank`'s, the sender's on a link, or each target's own.
std::string whose_step(const FaultSpec& fault) {
  if (fault.when.rank) return worker_name(*fault.when.rank);
  if (fault.who.kind == FaultTarget::Kind::link) return worker_name(fault.who.from);
  return fault.who.kind == FaultTarget::Kind::everyone ? "the first worker" : "the target";
}

std::string nth(const FaultTrigger& when) {
  return when.nth == 1 ? "" : fmt::format(", time {} that this happens", when.nth);
}

std::string when_text(const FaultSpec& fault) {
  const FaultTrigger& when = fault.when;
  switch (when.anchor) {
    case FaultTrigger::Anchor::step: {
      const std::string phase = when.phase.empty() ? "" : fmt::format(", phase {}", when.phase);
      return fmt::format("when {} enters step {}{}{}", whose_step(fault), when.step, phase,
                         nth(when));
    }
    case FaultTrigger::Anchor::event:
      return fmt::format("at the event {} of the target{}", name(when.event), nth(when));
    case FaultTrigger::Anchor::time:
      return "at " + format_duration(when.time.time_since_epoch());
    case FaultTrigger::Anchor::probability:
      return fmt::format("with probability {} per {}, drawn from the seed", when.probability,
                         fault.kind == FaultKind::kill ? "step" : "message");
  }
  return "?";
}

std::string messages_text(const FaultSpec& fault) {
  if (fault.messages.empty()) return "all messages";
  std::string names;
  for (const MessageKind kind : fault.messages) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name(kind));
  }
  return names + " messages";
}

std::string what_text(const FaultSpec& fault) {
  const std::string who = to_text(fault.who);
  if (fault.kind == FaultKind::kill) {
    return fmt::format("kills {}; peers see {}", who,
                       fault.seen_as == SeenAs::silent ? "silence" : "a reset at once");
  }
  const std::string lasts = fault.lasts == Duration::max() ? "to the end of the run"
                                                           : "for " + format_duration(fault.lasts);
  const std::string jitter = fault.jitter == Duration(0)
                                 ? ""
                                 : fmt::format(" and up to {} more", format_duration(fault.jitter));
  const bool delay = fault.kind == FaultKind::delay;
  return fmt::format("{} {} of {} by {}{}{}, {}", delay ? "delays" : "reorders",
                     messages_text(fault), who, delay ? "" : "at most ", format_duration(fault.by),
                     jitter, lasts);
}

void add_faults(const Scenario& scenario, Plan& plan) {
  if (scenario.faults.empty()) plan.add("faults", "none");
  for (const FaultSpec& fault : scenario.faults) {
    plan.add("faults", fmt::format("{}: {}, {}", fault.id, when_text(fault), what_text(fault)));
  }
}

std::string outcome_text(const ExpectedOutcome& expected) {
  if (expected.completes) return "every worker finishes";
  std::string text = fmt::format(
      "{} with {}", expected.on ? to_text(*expected.on) + " fails" : "a surviving worker fails",
      name(expected.fails_with));
  if (expected.names) text += ", naming " + to_text(*expected.names);
  if (expected.within)
    text += ", within " + format_duration(*expected.within) + " of the first fault";
  return text;
}

std::string closeness_line(std::string_view what, const Closeness& closeness) {
  if (closeness.kind == Closeness::Kind::unchecked) return fmt::format("not checked: {}", what);
  return fmt::format("{} equal those of the fault-free single-process run: {}", what,
                     to_text(closeness));
}

void add_checks(const Scenario& scenario, const WorkloadInfo& workload, Plan& plan) {
  const Expect& expect = scenario.expect;
  plan.add("checks", outcome_text(expect.outcome));
  plan.add("checks", "no worker waits for ever");
  if (!scenario.faults.empty()) plan.add("checks", "every fault fires");
  plan.add("checks", expect.leaks_checked
                         ? "nothing is left: contexts, passes, futures, tasks, processes"
                         : "not checked: leaks");
  plan.add("checks", workload.has_oracle ? closeness_line("gradients", expect.gradients)
                                         : "not checked: gradients (the workload has no oracle)");
  if (expect.final_parameters) {
    plan.add("checks", closeness_line("final parameters", *expect.final_parameters));
  } else {
    plan.add("checks", "not checked: final parameters (not asked for)");
  }
}

void add_limits(Plan& plan) {
  const Limits limits;
  plan.add("deadlines",
           fmt::format("call {}, backward {}, verdict of a pass {}", format_duration(limits.call),
                       format_duration(limits.backward), format_duration(limits.verdict)));
  plan.add("deadlines", fmt::format("finding a worker {}, waiting for the others' end {}",
                                    format_duration(limits.find), format_duration(limits.finish)));
  plan.add("deadlines", fmt::format("credit per peer {}, contexts open per worker {}",
                                    format_size(static_cast<std::int64_t>(limits.credit_bytes)),
                                    limits.contexts_open));
}

}  // namespace

std::string explain(const Scenario& scenario, const Catalogue& catalogue) {
  Plan plan;
  plan.add("scenario", fmt::format("{}, seed {}", scenario.name, scenario.seed));
  std::vector<std::string_view> worlds;
  for (const WorldKind world : scenario.worlds) worlds.push_back(name(world));
  plan.add("worlds", fmt::format("{}", fmt::join(worlds, ", ")));
  add_cluster(scenario.cluster, plan);
  const WorkloadInfo* workload = catalogue.find(scenario.job.workload);
  REHEARSE_CHECK(workload, "a parsed scenario names a workload of the catalogue");
  add_job(scenario.job, *workload, plan);
  add_faults(scenario, plan);
  add_checks(scenario, *workload, plan);
  add_limits(plan);
  return plan.text();
}

}  // namespace rehearse::harness
