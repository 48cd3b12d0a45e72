#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/life/script.hpp"

namespace rehearse::life {

/// A tensor as the model sees it. All its elements are equal, and so are those of every leaf; all
/// numbers are whole and small, so sums and products are exact in any order.
struct Known {
  double value = 0;
  std::map<int, double> slopes;  ///< by each worker's leaf; absent: does not depend on it
  std::set<int> workers{0};      ///< who takes part in a backward pass from it

  bool requires_grad() const { return !slopes.empty(); }
  bool small() const {
    constexpr double kMost = 1e9;
    for (const auto& [worker, slope] : slopes) {
      if (std::abs(slope) > kMost) return false;
    }
    return std::abs(value) <= kMost;
  }
};

/// A value that is on its way from a worker, or stays there behind a reference.
struct Elsewhere {
  int worker = 0;
  Known value;
};

/// What must be true of a job's life, by the rules of differentiation and nothing else.
struct Model {
  std::vector<double> leaves{2, 3, 4};
  bool open = false;
  std::vector<Known> tensors;
  std::vector<Elsewhere> pending;
  std::vector<Elsewhere> refs;
  std::map<int, double> gradients;  ///< of the open context
  std::optional<int> dead;          ///< for certain
  std::optional<int> doomed;        ///< perhaps dead

  Known leaf() const { return {leaves[0], {{0, 1}}, {0}}; }

  /// `in` times the leaf of `worker`, computed there, on the way of `by`.
  Known times(const Known& in, int worker, const std::set<int>& by) const {
    const double leaf = leaves[static_cast<std::size_t>(worker)];
    Known out{in.value * leaf, {}, {0}};
    if (!open) return out;  // without a context nothing is recorded across workers
    out.slopes = in.slopes;
    for (auto& [of, slope] : out.slopes) slope *= leaf;
    out.slopes[worker] += in.value;
    if (in.requires_grad()) out.workers = in.workers;
    out.workers.insert(worker);
    out.workers.insert(by.begin(), by.end());
    return out;
  }

  void backward(const Known& root) {
    for (const auto& [worker, slope] : root.slopes) gradients[worker] += slope;
  }
  bool step_stays_small() const {
    for (const auto& [worker, gradient] : gradients) {
      if (std::abs(leaves[static_cast<std::size_t>(worker)] - gradient) > 20) return false;
    }
    return true;
  }
  /// What was recorded saw leaves that are no more.
  void step() {
    for (const auto& [worker, gradient] : gradients)
      leaves[static_cast<std::size_t>(worker)] -= gradient;
    forget_graph();
  }
  void close() {
    open = false;
    gradients.clear();
    forget_graph();
  }
  void forget_graph() {
    tensors.clear();
    pending.clear();
    refs.clear();
  }

  /// "ok", or the beginning of the error that what needs `workers` must end with.
  std::string expected(const std::set<int>& workers) const {
    return dead && workers.contains(*dead) ? lost(*dead) : "ok";
  }
  bool may_be_lost(const std::set<int>& workers) const {
    return doomed && workers.contains(*doomed);
  }
  static std::string lost(int worker) { return "peer_lost w" + std::to_string(worker) + ":"; }
};

}  // namespace rehearse::life
