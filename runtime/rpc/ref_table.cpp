#include "runtime/rpc/ref_table.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse::rpc {
namespace {

Failure owner_lost(std::uint16_t owner, const std::string& why) {
  return {Code::peer_lost,
          fmt::format("{}, which owns the value, is lost: {}", worker_name(owner), why),
          worker_name(owner), 0};
}

}  // namespace

void RefTable::tell(std::uint16_t to, MessageKind kind, const Reference& what, Actions& actions,
                    Failure why) {
  if (!lost_.contains(to)) actions.push_back(Tell{to, {kind, what, std::move(why)}});
}

// --- references that this worker holds

Reference RefTable::mint(std::uint16_t owner) {
  const Reference what{{owner, self_, ++refs_minted_[owner]}, new_fork(owner)};
  uses_.emplace(what.fork, Use(what.ref));
  return what;
}

Reference RefTable::own() {
  const Reference what{{self_, self_, ++refs_minted_[self_]}, new_fork(self_)};
  uses_.emplace(what.fork, Use(what.ref, true));
  owned_[what.ref] = {true, {{what.fork, self_}}};
  return what;
}

RefTable::Actions RefTable::settle(ForkId fork, Status answer) {
  Actions actions;
  const auto found = uses_.find(fork);
  if (found == uses_.end() || found->second.answered) return actions;
  // The request may arrive all the same: whatever it makes there is not wanted.
  found->second.given_up = !answer.ok();
  answer_use(fork, std::move(answer), actions);
  return actions;
}

Reference RefTable::share(ForkId fork, std::uint16_t to) {
  Use& use = uses_.at(fork);
  const Reference child{use.ref, new_fork(use.ref.owner)};
  if (lost_.contains(to)) return child;
  if (use.ref.owner == self_) {
    owned_[use.ref].forks.emplace(child.fork, to);  // the request that makes it may be on its way
  } else {
    ++use.children;
    passed_on_[child.fork] = {fork, to};
  }
  return child;
}

std::optional<RefTable::Actions> RefTable::receive(std::uint16_t from, const Reference& what) {
  const auto [found, fresh] = uses_.try_emplace(what.fork, Use(what.ref));
  if (!fresh) return std::nullopt;
  Use& use = found->second;
  Actions actions;
  const std::uint16_t owner = what.ref.owner;
  if (from == owner) {  // who passed it on knows of it
    use.answered = true;
    return actions;
  }
  use.parent = from;
  if (owner == self_) {
    on_ask(self_, what, actions);
  } else if (const auto lost = lost_.find(owner); lost != lost_.end()) {
    answer_use(what.fork, owner_lost(owner, lost->second), actions);
  } else {
    tell(owner, MessageKind::ref_ask, what, actions);
  }
  return actions;
}

RefTable::Actions RefTable::drop(ForkId fork) {
  Actions actions;
  uses_.at(fork).dropped = true;
  forget_if_over(fork, actions);
  return actions;
}

bool RefTable::confirmed(ForkId fork) const {
  const Use& use = uses_.at(fork);
  return use.answered && use.status.ok();
}

const Status& RefTable::status(ForkId fork) const { return uses_.at(fork).status; }

void RefTable::answer_use(ForkId fork, Status answer, Actions& actions) {
  const auto found = uses_.find(fork);
  if (found == uses_.end()) return;
  Use& use = found->second;
  if (use.answered) {
    // What has been confirmed can still fail with its owner.
    if (!answer.ok() && use.status.ok()) use.status = std::move(answer);
    return;
  }
  use.answered = true;
  use.status = std::move(answer);
  if (const auto parent = std::exchange(use.parent, std::nullopt))
    tell(*parent, MessageKind::ref_accept, {use.ref, fork}, actions);
  actions.push_back(Settled{fork});
  forget_if_over(fork, actions);
}

void RefTable::forget_if_over(ForkId fork, Actions& actions) {
  const auto found = uses_.find(fork);
  if (found == uses_.end()) return;
  Use& use = found->second;
  if (!use.answered || use.children > 0) return;
  if (std::exchange(use.given_up, false))
    tell(fork.owner, MessageKind::ref_release, {use.ref, fork}, actions);
  if (!use.dropped) return;
  const Reference what{use.ref, fork};
  const bool known_there = use.status.ok();
  uses_.erase(found);
  if (what.ref.owner == self_) return on_release(what, actions);
  if (known_there) tell(what.ref.owner, MessageKind::ref_release, what, actions);
}

// --- values that this worker owns

RefTable::Actions RefTable::created(std::uint16_t from, const Reference& what) {
  Actions actions;
  if (refs_over_[what.ref.minter].contains(what.ref.number)) return actions;
  Owned& owned = owned_[what.ref];
  owned.created = true;
  const bool wanted = !forks_over_[what.fork.minter].contains(what.fork.number);
  if (wanted && !lost_.contains(from)) owned.forks.emplace(what.fork, from);
  free_if_over(what.ref, actions);
  return actions;
}

bool RefTable::expects(RefId ref) const {
  if (owned_.contains(ref)) return true;
  const auto over = refs_over_.find(ref.minter);
  return !lost_.contains(ref.minter) &&
         (over == refs_over_.end() || !over->second.contains(ref.number));
}

Failure RefTable::asker_lost(std::uint16_t worker) const {
  return {Code::peer_lost,
          fmt::format("{}, which asked for the value, is lost: {}", worker_name(worker),
                      lost_.at(worker)),
          worker_name(worker), 0};
}

Failure RefTable::gone(RefId ref) const {
  if (lost_.contains(ref.minter)) return asker_lost(ref.minter);
  return {Code::bad_argument, "the value was freed before its owner knew of this reference",
          worker_name(self_), 0};
}

void RefTable::on_ask(std::uint16_t from, const Reference& what, Actions& actions) {
  Failure why;
  if (!expects(what.ref)) {
    why = gone(what.ref);
  } else if (!forks_over_[what.fork.minter].contains(what.fork.number)) {
    owned_[what.ref].forks.emplace(what.fork, from);
  }
  if (from != self_) return tell(from, MessageKind::ref_confirm, what, actions, std::move(why));
  answer_use(what.fork, why.code == Code::ok ? Status() : Status(why), actions);
}

void RefTable::on_release(const Reference& what, Actions& actions) {
  forks_over_[what.fork.minter].add(what.fork.number);
  const auto found = owned_.find(what.ref);
  if (found == owned_.end()) return;
  found->second.forks.erase(what.fork);
  free_if_over(what.ref, actions);
}

void RefTable::free_if_over(RefId ref, Actions& actions) {
  const auto found = owned_.find(ref);
  if (found == owned_.end() || !found->second.forks.empty()) return;
  const bool created = found->second.created;
  owned_.erase(found);
  if (!created) return;  // the request that makes it is on its way
  refs_over_[ref.minter].add(ref.number);
  actions.push_back(Free{ref});
}

// --- both

RefTable::Actions RefTable::hear(std::uint16_t from, const RefMessage& message) {
  Actions actions;
  const Reference& what = message.what;
  if (lost_.contains(from)) return actions;
  switch (message.kind) {
    case MessageKind::ref_ask:
      if (what.ref.owner == self_) on_ask(from, what, actions);
      break;
    case MessageKind::ref_release:
      if (what.ref.owner == self_) on_release(what, actions);
      break;
    case MessageKind::ref_confirm:
      if (from != what.ref.owner) break;
      answer_use(what.fork, message.why.code == Code::ok ? Status() : Status(message.why), actions);
      break;
    case MessageKind::ref_accept:
      on_accept(what, actions);
      break;
    default:
      REHEARSE_CHECK(false, "no message about references");
  }
  return actions;
}

void RefTable::on_accept(const Reference& what, Actions& actions) {
  const auto found = passed_on_.find(what.fork);
  if (found == passed_on_.end()) return;
  const ForkId parent = found->second.parent;
  passed_on_.erase(found);
  --uses_.at(parent).children;
  forget_if_over(parent, actions);
}

RefTable::Actions RefTable::peer_lost(std::uint16_t worker, const std::string& why) {
  Actions actions;
  if (!lost_.emplace(worker, why).second) return actions;
  lose_held(worker, why, actions);
  lose_holder(worker, actions);
  return actions;
}

// References of this worker: whose owner, parent or child is lost.
void RefTable::lose_held(std::uint16_t worker, const std::string& why, Actions& actions) {
  std::vector<ForkId> children, uses;
  for (const auto& [child, passed] : passed_on_) {
    if (passed.to == worker || child.owner == worker) children.push_back(child);
  }
  for (const ForkId child : children) on_accept({{}, child}, actions);
  for (auto& [fork, use] : uses_) {
    if (use.parent == worker) use.parent.reset();
    if (fork.owner == worker) uses.push_back(fork);
  }
  for (const ForkId fork : uses) answer_use(fork, owner_lost(worker, why), actions);
}

// Values of this worker that the lost one referred to, or was to ask for.
void RefTable::lose_holder(std::uint16_t worker, Actions& actions) {
  std::vector<RefId> unmade, values;
  for (auto& [ref, owned] : owned_) {
    std::erase_if(owned.forks, [&](const auto& fork) { return fork.second == worker; });
    (!owned.created && ref.minter == worker ? unmade : values).push_back(ref);
  }
  for (const RefId ref : values) free_if_over(ref, actions);
  for (const RefId ref : unmade) refuse_all(ref, asker_lost(worker), actions);
}

RefTable::Actions RefTable::never_made(RefId ref, const Failure& why) {
  Actions actions;
  refs_over_[ref.minter].add(ref.number);
  refuse_all(ref, why, actions);
  return actions;
}

void RefTable::refuse_all(RefId ref, const Failure& why, Actions& actions) {
  const auto found = owned_.find(ref);
  if (found == owned_.end()) return;
  const auto forks = std::move(found->second.forks);
  owned_.erase(found);
  for (const auto& [fork, holder] : forks) {
    tell(holder, MessageKind::ref_confirm, {ref, fork}, actions, why);
  }
  actions.push_back(NeverMade{ref, why});
}

}  // namespace rehearse::rpc
