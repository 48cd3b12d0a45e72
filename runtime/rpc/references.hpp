#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/rpc/any_value.hpp"
#include "runtime/rpc/future.hpp"
#include "runtime/rpc/ref_table.hpp"

namespace rehearse::rpc {

class Calls;
class References;

/// One reference that this worker holds. Whoever drops the last pointer to it gives it up.
class RefHandle {
 public:
  RefHandle(std::weak_ptr<References> home, const Reference& what)
      : home_(std::move(home)), what_(what) {}
  ~RefHandle();
  RefHandle(const RefHandle&) = delete;
  RefHandle& operator=(const RefHandle&) = delete;

  const Reference& what() const { return what_; }
  /// Of the worker that holds it. Throws Error{stopped} if that has ended.
  std::shared_ptr<References> home() const;

 private:
  std::weak_ptr<References> home_;
  Reference what_;
};

/// One worker's remote references, and the values that others refer to. None of it waits, except
/// where it says so.
class References : public std::enable_shared_from_this<References> {
 public:
  References(World& world, Places& places, Calls& calls)
      : world_(world), places_(places), calls_(calls) {}
  virtual ~References();

  Calls& calls() { return calls_; }
  int self() const { return world_.self.rank; }

  /// A reference to a value that is here.
  virtual RefPtr own(ValuePtr value) = 0;
  /// A reference to the value that `owner` is about to be asked for.
  virtual RefPtr mint(int owner) = 0;
  /// How the owner answered that request.
  virtual void settle(const Reference& what, Status answer) = 0;
  virtual void drop(const Reference& what) = 0;

  virtual bool confirmed(const Reference& what) const = 0;
  /// Why it cannot be used, if so.
  virtual Status status(const Reference& what) const = 0;

  /// The value of this worker, when it has been made; what came in its place.
  Future<ValuePtr> value(RefId ref) { return promise(ref).future(); }
  /// The request that makes the value has been served.
  void made(RefId ref, Result<ValuePtr> value);

 protected:
  Promise<ValuePtr>& promise(RefId ref);
  void forget(RefId ref);
  World& world() const { return world_; }
  Places& places() const { return places_; }

 private:
  World& world_;
  Places& places_;
  Calls& calls_;
  std::map<RefId, Promise<ValuePtr>> values_;
};

/// References between workers that exchange messages: counted by `RefTable`.
class CountedReferences final : public References {
 public:
  using Post = std::function<void(std::uint16_t to, Message message)>;

  CountedReferences(World& world, Places& places, Calls& calls, Post post);

  RefPtr own(ValuePtr value) override;
  RefPtr mint(int owner) override;
  void settle(const Reference& what, Status answer) override;
  void drop(const Reference& what) override;
  bool confirmed(const Reference& what) const override;
  Status status(const Reference& what) const override;

  /// Writes the references that go to `to` in a message. From here on the message must be sent.
  void share(std::uint16_t to, std::span<const RefPtr> refs, Writer& header);
  /// Reads what `share` wrote. Fails with `corrupt`.
  Result<std::vector<RefPtr>> receive(std::uint16_t from, Reader& header);
  /// Waits until the owners know of all of them. Throws Error if one cannot be used.
  void wait_until_confirmed(std::span<const RefPtr> refs, Time deadline);

  /// A request to make the value has come; `made` follows.
  void created(std::uint16_t from, const Reference& what);
  /// It cannot be served.
  void never_made(RefId ref, const Failure& why);
  /// Whether the value is here or on its way.
  bool expects(RefId ref) const { return table_.expects(ref); }

  void hear(std::uint16_t from, const Message& message);
  void peer_lost(std::uint16_t worker, const std::string& why);

  std::size_t owned() const { return table_.owned(); }
  std::size_t held() const { return table_.held(); }

 private:
  RefPtr handle(const Reference& what);
  void perform(RefTable::Actions actions);

  Post post_;
  RefTable table_;
  std::map<ForkId, std::vector<TaskId>> waiting_;
};

}  // namespace rehearse::rpc
