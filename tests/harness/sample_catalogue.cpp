#include "tests/harness/sample_catalogue.hpp"

namespace rehearse::harness {
namespace {

OptionSpec integer(std::string name, std::int64_t default_value, std::string help, double min,
                   double max) {
  return {std::move(name), default_value, std::move(help), min, max, {}};
}

std::int64_t count(const Options& options, const std::string& name) {
  return std::get<std::int64_t>(options.at(name));
}

WorkloadInfo random_graph() {
  return {"random_graph",
          "a random program over the workers: operations, calls, views, shared leaves",
          {integer("nodes", 24, "operations in the program", 1, 100'000),
           integer("workers_used", 0, "workers that take part; 0: all of the cluster", 0, 65'535),
           {"dtype",
            std::string("float32"),
            "element type of the tensors",
            {},
            {},
            {"float32", "float64"}}},
          [](const Options& options) {
            return std::max<std::int64_t>(1, count(options, "workers_used"));
          }};
}

WorkloadInfo call_chain() {
  return {"call_chain",
          "two workers that call each other, A to B to A to B, and back",
          {integer("depth", 4, "calls nested in each other", 1, 10'000),
           integer("width", 8, "elements of the tensor that travels", 1, 1'000'000)},
          [](const Options&) { return 2; }};
}

WorkloadInfo fan_out() {
  return {"fan_out",
          "one tensor sent to many through relays, with fan-in of the results",
          {integer("copies", 3, "times that each relay gets the tensor", 1, 10'000),
           integer("relays", 2, "workers in between", 1, 65'000)},
          [](const Options& options) { return 1 + count(options, "relays"); }};
}

WorkloadInfo parameter_server() {
  return {"parameter_server",
          "a small model split between parameter servers and trainers",
          {integer("servers", 1, "workers that hold parameters", 1, 65'000),
           integer("trainers", 1, "workers that hold data and the loss", 1, 65'000),
           integer("hidden", 32, "width of the hidden layers", 1, 65'536),
           integer("layers", 2, "layers of the model", 1, 1'000),
           integer("batch", 16, "rows of a trainer's batch", 1, 1'000'000)},
          [](const Options& options) {
            return count(options, "servers") + count(options, "trainers");
          }};
}

WorkloadInfo model_parallel() {
  return {"model_parallel",
          "a model whose stages are on different workers",
          {integer("stages", 2, "workers in a row, one stage each", 1, 65'000),
           integer("hidden", 32, "width of the hidden layers", 1, 65'536),
           integer("batch", 16, "rows of the batch", 1, 1'000'000)},
          [](const Options& options) { return count(options, "stages"); }};
}

}  // namespace

Catalogue sample_catalogue() {
  Catalogue catalogue;
  for (WorkloadInfo& workload : std::vector<WorkloadInfo>{random_graph(), call_chain(), fan_out(),
                                                          parameter_server(), model_parallel()}) {
    catalogue.add(std::move(workload));
  }
  return catalogue;
}

}  // namespace rehearse::harness
