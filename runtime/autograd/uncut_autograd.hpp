#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "runtime/autograd/autograd.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::autograd {

class UncutAutograd;

/// The contexts of one uncut run, shared by its workers: each context is one torch graph.
class UncutJob {
 public:
  struct Owner {
    GradientMap gradients;
    std::uint32_t passes = 0;
    std::set<WorkerId> called;
  };
  struct Context {
    ContextPlace place;
    std::map<WorkerId, Owner> owners;
  };

  Context* find(ContextId context);
  std::map<ContextId, Context> contexts;
};

/// Autograd of the uncut run: a message crosses as one identity node, `backward` is torch's own
/// engine. Gives the gradients, owner by owner, that the cut run must give bit for bit.
class UncutAutograd final : public Autograd {
 public:
  UncutAutograd(UncutJob& job, World& world, rpc::Places& places)
      : job_(job), world_(world), places_(places) {}

  ContextId open(const ContextPlace& place) override;
  void close(ContextId context) override;
  void backward(ContextId context, const std::vector<at::Tensor>& roots,
                const BackwardOptions& options) override;
  std::vector<GradientMap::Entry> gradients(ContextId context) override;
  bool knows(ContextId context) const override { return job_.contexts.contains(context); }
  std::size_t live_contexts() const override;
  std::size_t live_passes() const override { return 0; }
  std::vector<WorkerId> called(ContextId context) const override;

  Status join(const rpc::Place& place, std::uint16_t from) override;
  Status leave(std::uint16_t, const std::vector<at::Tensor>&, Writer&) override { return {}; }
  Status enter(ContextId, std::uint16_t, std::vector<at::Tensor>&, Reader&) override { return {}; }
  std::vector<at::Tensor> in_place(std::uint16_t to,
                                   const std::vector<at::Tensor>& tensors) override;
  void entered(const rpc::Place&) override {}
  void left(const rpc::Place&) override {}

 private:
  UncutJob::Context& require(ContextId context);
  void commit(ContextId context, WorkerId owner, GradientMap staged);
  WorkerId self() const { return static_cast<WorkerId>(world_.self.rank); }

  UncutJob& job_;
  World& world_;
  rpc::Places& places_;
  std::uint32_t next_context_ = 1;
};

}  // namespace rehearse::autograd
