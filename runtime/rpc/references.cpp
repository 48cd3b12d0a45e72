#include "runtime/rpc/references.hpp"

#include <algorithm>
#include <utility>

#include "runtime/rpc/calls.hpp"
#include "runtime/rpc/envelope.hpp"

namespace rehearse::rpc {

RefHandle::~RefHandle() {
  if (const auto home = home_.lock()) home->drop(what_);
}

std::shared_ptr<References> RefHandle::home() const {
  if (auto home = home_.lock()) return home;
  throw Error(Code::stopped, "a remote reference is used after its worker has ended");
}

References::~References() = default;

Promise<ValuePtr>& References::promise(RefId ref) {
  const auto found = values_.find(ref);
  if (found != values_.end()) return found->second;
  return values_
      .emplace(ref, Promise<ValuePtr>(world_, places_, "the making of a value", world_.self.name))
      .first->second;
}

void References::made(RefId ref, Result<ValuePtr> value) {
  const auto found = values_.find(ref);
  if (found == values_.end()) return;  // nobody wants it any more
  const Promise<ValuePtr> kept = found->second;
  kept.set(std::move(value));
}

void References::forget(RefId ref) {
  const auto found = values_.find(ref);
  if (found == values_.end()) return;
  // Out of the map first: the value may hold references itself.
  const Promise<ValuePtr> last = std::move(found->second);
  values_.erase(found);
}

CountedReferences::CountedReferences(World& world, Places& places, Calls& calls, Post post)
    : References(world, places, calls),
      post_(std::move(post)),
      table_(static_cast<std::uint16_t>(world.self.rank)) {}

RefPtr CountedReferences::handle(const Reference& what) {
  return std::make_shared<RefHandle>(weak_from_this(), what);
}

RefPtr CountedReferences::own(ValuePtr value) {
  const Reference what = table_.own();
  promise(what.ref).set(std::move(value));
  return handle(what);
}

RefPtr CountedReferences::mint(int owner) {
  return handle(table_.mint(static_cast<std::uint16_t>(owner)));
}

void CountedReferences::settle(const Reference& what, Status answer) {
  perform(table_.settle(what.fork, std::move(answer)));
}

void CountedReferences::drop(const Reference& what) { perform(table_.drop(what.fork)); }

bool CountedReferences::confirmed(const Reference& what) const {
  return table_.confirmed(what.fork);
}

Status CountedReferences::status(const Reference& what) const { return table_.status(what.fork); }

void CountedReferences::share(std::uint16_t to, std::span<const RefPtr> refs, Writer& header) {
  header.put_varint(refs.size());
  for (const RefPtr& ref : refs) {
    header.put(ref != nullptr);
    if (ref) put(table_.share(ref->what().fork, to), header);
  }
}

Result<std::vector<RefPtr>> CountedReferences::receive(std::uint16_t from, Reader& header) {
  std::vector<RefPtr> refs(header.get_count());
  for (RefPtr& ref : refs) {
    if (!header.get<bool>()) continue;
    const auto what = get_reference(header);
    if (!what || what->ref.owner >= world().self.world_size || what->fork.minter != from)
      return Failure{Code::corrupt, "a reference in a message cannot be read", {}, 0};
    auto actions = table_.receive(from, *what);
    if (!actions) return Failure{Code::corrupt, "a reference has come twice", {}, 0};
    ref = handle(*what);
    perform(std::move(*actions));
  }
  return refs;
}

void CountedReferences::wait_until_confirmed(std::span<const RefPtr> refs, Time deadline) {
  for (const RefPtr& ref : refs) {
    if (!ref) continue;
    const ForkId fork = ref->what().fork;
    for (;;) {
      table_.status(fork).or_throw();
      if (table_.confirmed(fork)) break;
      waiting_[fork].push_back(world().tasks.current());
      const std::string owner = worker_name(fork.owner);
      const Wake wake = world().tasks.park(deadline, {"a reference to be confirmed", owner});
      if (wake == Wake::timed_out) {
        throw Error({Code::timed_out,
                     owner + " did not confirm a reference among the arguments in time", owner, 0});
      }
    }
  }
}

void CountedReferences::created(std::uint16_t from, const Reference& what) {
  promise(what.ref);
  perform(table_.created(from, what));
}

void CountedReferences::never_made(RefId ref, const Failure& why) {
  perform(table_.never_made(ref, why));
}

void CountedReferences::hear(std::uint16_t from, const Message& message) {
  Reader reader(message.header);
  const auto what = get_reference(reader);
  RefMessage heard{message.kind, {}, {}};
  if (!what) return;
  heard.what = *what;
  if (message.kind == MessageKind::ref_confirm && reader.get<bool>())
    heard.why = decode_failure(reader);
  if (reader.failed()) return;
  perform(table_.hear(from, heard));
}

void CountedReferences::peer_lost(std::uint16_t worker, const std::string& why) {
  perform(table_.peer_lost(worker, why));
}

void CountedReferences::perform(RefTable::Actions actions) {
  for (auto& action : actions) {
    if (const auto* tell = std::get_if<RefTable::Tell>(&action)) {
      Message message{tell->message.kind, {}, {}};
      Writer header(message.header);
      put(tell->message.what, header);
      if (message.kind == MessageKind::ref_confirm) {
        const bool refused = tell->message.why.code != Code::ok;
        header.put(refused);
        if (refused) encode_failure(tell->message.why, header);
      }
      post_(tell->to, std::move(message));
    } else if (const auto* settled = std::get_if<RefTable::Settled>(&action)) {
      const auto found = waiting_.find(settled->fork);
      if (found == waiting_.end()) continue;
      const auto tasks = std::move(found->second);
      waiting_.erase(found);
      for (const TaskId task : tasks) world().tasks.unpark(task);
    } else if (const auto* free = std::get_if<RefTable::Free>(&action)) {
      forget(free->ref);
    } else if (const auto* never = std::get_if<RefTable::NeverMade>(&action)) {
      made(never->ref, never->why);
      forget(never->ref);
    }
  }
}

}  // namespace rehearse::rpc
