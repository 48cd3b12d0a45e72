// Who may include whom. CMake's link lists say the same of libraries; this says it of headers.
#include <algorithm>
#include <string_view>

#include "tests/tidy/rules.hpp"

namespace rehearse::tidy {
namespace {

using Names = std::vector<std::string_view>;

/// A part of the project, and the other parts (or single headers) that it may include.
struct Part {
  std::string_view folder;
  Names may_include;
};

const std::vector<Part>& parts() {
  constexpr std::string_view kTask = "runtime/fiber/task.hpp";  // the waits that the seam speaks of
  // `Program` is above training, what its layers see of a worker below.
  constexpr std::string_view kWorker = "runtime/worker/worker.hpp";
  constexpr std::string_view kDistAutograd = "runtime/worker/dist_autograd.hpp";
  static const std::vector<Part> kParts = {
      {"runtime/base", {}},
      {"runtime/fiber", {"runtime/base"}},
      {"runtime/world", {"runtime/base", kTask}},
      {"runtime/virtual", {"runtime/base", "runtime/fiber", "runtime/world"}},
      {"runtime/real", {"runtime/base", "runtime/fiber", "runtime/world"}},
      {"runtime/rpc", {"runtime/base", kTask, "runtime/world"}},
      {"runtime/autograd", {"runtime/base", kTask, "runtime/world", "runtime/rpc"}},
      {"runtime/training",
       {"runtime/base", kTask, "runtime/world", "runtime/rpc", "runtime/autograd", kWorker,
        kDistAutograd}},
      {"runtime/worker",
       {"runtime/base", kTask, "runtime/world", "runtime/rpc", "runtime/autograd",
        "runtime/training"}},
      {"sim", {"runtime/base", "runtime/fiber", "runtime/world", "runtime/virtual"}},
      {"workloads",
       {"runtime/base", "runtime/world", "runtime/rpc", "runtime/autograd", "runtime/worker"}},
      {"include",
       {"runtime/base", "runtime/rpc", "runtime/autograd", "runtime/training", "runtime/worker"}},
      {"harness", {"runtime", "sim", "workloads"}},
      {"reports", {"runtime/base", "runtime/world", "harness"}},
      {"app", {"runtime", "sim", "workloads", "harness", "reports"}},
      {"examples",
       {"runtime/base", "runtime/rpc", "runtime/autograd", "runtime/worker", "harness"}},
      {"bench", {"runtime", "sim", "workloads", "harness", "reports"}},
      {"tests", {"runtime", "sim", "workloads", "harness", "reports", "app", "examples"}},
  };
  return kParts;
}

/// Parts that start in milliseconds because they know no torch.
constexpr std::string_view kTorchFree[] = {"runtime/base", "runtime/fiber",   "runtime/world",
                                           "runtime/real", "runtime/virtual", "sim",
                                           "reports"};

bool is_inside(std::string_view path, std::string_view part) {
  return path == part ||
         (path.starts_with(part) && path.size() > part.size() && path[part.size()] == '/');
}

bool is_of_project(std::string_view include) {
  return include.starts_with("runtime/") || std::ranges::any_of(parts(), [&](const Part& part) {
           return is_inside(include, part.folder);
         });
}

const Part* part_of(const Source& source) {
  const auto found =
      std::ranges::find_if(parts(), [&](const Part& part) { return source.is_under(part.folder); });
  return found == parts().end() ? nullptr : &*found;
}

bool may_include(const Part& part, std::string_view include) {
  return is_inside(include, part.folder) ||
         std::ranges::any_of(part.may_include,
                             [&](std::string_view allowed) { return is_inside(include, allowed); });
}

std::string list(const Names& names) {
  std::string all;
  for (const std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all.empty() ? "nothing else of the project" : all;
}

bool is_torch(std::string_view include) {
  return include.starts_with("torch/") || include.starts_with("ATen/") ||
         include.starts_with("c10/");
}

bool is_wide(std::string_view include) {
  return include == "torch/torch.h" || include == "torch/all.h" || include == "ATen/ATen.h" ||
         include == "torch/extension.h";
}

bool may_be_wide(const Source& source) {
  return source.is_under("workloads") || source.is_under("tests") || source.is_under("bench") ||
         source.is_under("examples");
}

bool includes_autograd(const Source& source) {
  return std::ranges::any_of(source.includes, [](const Include& include) {
    return include.path.starts_with("torch/csrc/autograd");
  });
}

}  // namespace

void check_include_arrows(const Source& source, Findings& findings) {
  const Part* part = part_of(source);
  if (part == nullptr) {
    findings.push_back({source.path, 1, "include-arrow",
                        "this folder is in no part: say in tests/tidy/includes.cpp what it may "
                        "include"});
    return;
  }
  for (const Include& include : source.includes) {
    if (!is_of_project(include.path) || may_include(*part, include.path)) continue;
    findings.push_back({source.path, include.line, "include-arrow",
                        std::string(part->folder) + " may not include " + include.path +
                            "; it may include " + list(part->may_include)});
  }
}

void check_torch_headers(const Source& source, Findings& findings) {
  const bool is_torch_free = std::ranges::any_of(
      kTorchFree, [&](std::string_view folder) { return source.is_under(folder); });
  for (const Include& include : source.includes) {
    if (is_torch_free && is_torch(include.path)) {
      findings.push_back({source.path, include.line, "torch-free",
                          include.path + ": this part links no torch; hand bytes and payloads "
                                         "across, and turn tensors into them in runtime/rpc"});
    } else if (is_wide(include.path) && !may_be_wide(source)) {
      findings.push_back({source.path, include.line, "wide-torch-header",
                          include.path + " costs 20 to 40 seconds a file: include "
                                         "ATen/core/Tensor.h and single ATen/ops headers"});
    }
  }
}

void check_autograd_header_count(const Tree& tree, Findings& findings) {
  constexpr int kLimit = 25;
  const auto count = std::ranges::count_if(tree.sources, includes_autograd);
  if (count <= kLimit) return;
  findings.push_back({"runtime/autograd", 1, "autograd-headers",
                      std::to_string(count) + " files include torch/csrc/autograd, at most " +
                          std::to_string(kLimit) + " may: put it behind a type of ours"});
}

}  // namespace rehearse::tidy
