#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/number_set.hpp"
#include "runtime/base/result.hpp"
#include "runtime/rpc/ref_id.hpp"
#include "runtime/world/message.hpp"

namespace rehearse::rpc {

/// What tables say to each other. `kind` is one of the `ref_…` kinds; `why` is set in a
/// `ref_confirm` that refuses.
struct RefMessage {
  MessageKind kind = MessageKind::ref_ask;
  Reference what;
  Failure why;
};

/// One worker's remote references: those that it holds, and those to values that it owns. Decides
/// when a value may go, waits for nothing: every event gives the actions that follow.
///
/// A value lives as long as its owner knows of a reference. Who passes one on gives the new
/// reference its number and keeps its own until the receiver has heard from the owner; so the
/// owner always knows of one, in whatever order messages arrive. Messages about references may be
/// repeated and may overtake each other.
class RefTable {
 public:
  struct Tell {
    std::uint16_t to = 0;
    RefMessage message;
  };
  /// The reference is confirmed, or has failed: who waits for that looks again.
  struct Settled {
    ForkId fork;
  };
  /// This worker's value is referred to no more.
  struct Free {
    RefId ref;
  };
  /// This worker was to own a value that will never be made.
  struct NeverMade {
    RefId ref;
    Failure why;
  };
  using Action = std::variant<Tell, Settled, Free, NeverMade>;
  using Actions = std::vector<Action>;

  explicit RefTable(std::uint16_t self) : self_(self) {}

  // --- references that this worker holds

  /// A reference to a value that `owner` is asked to make. Unconfirmed until `settle`.
  Reference mint(std::uint16_t owner);
  /// The owner has answered the request that `mint` was for, or never will in time.
  Actions settle(ForkId fork, Status answer);
  /// A reference to a new value of this worker.
  Reference own();
  /// The reference that goes to `to` in a message. REQUIRES: `fork` is held.
  Reference share(ForkId fork, std::uint16_t to);
  /// `what` has come in a message of `from`. Empty if it was held before.
  std::optional<Actions> receive(std::uint16_t from, const Reference& what);
  /// The program holds it no more. REQUIRES: it is held.
  Actions drop(ForkId fork);

  bool confirmed(ForkId fork) const;
  /// Why it cannot be used, if so. REQUIRES: it is held.
  const Status& status(ForkId fork) const;

  // --- values that this worker owns

  /// A request to make `what` has come from `from`. The value stays until `Free`, which may be
  /// among the actions: nobody may want it any more.
  Actions created(std::uint16_t from, const Reference& what);
  /// The request to make it cannot be served.
  Actions never_made(RefId ref, const Failure& why);
  /// False if the value is gone, or will never be made.
  bool expects(RefId ref) const;

  // --- both

  Actions hear(std::uint16_t from, const RefMessage& message);
  Actions peer_lost(std::uint16_t worker, const std::string& why);

  std::size_t owned() const { return owned_.size(); }  ///< values
  std::size_t held() const { return uses_.size(); }    ///< references, dropped ones under way too

 private:
  struct Use {
    explicit Use(RefId of, bool known = false) : ref(of), answered(known) {}
    RefId ref;
    bool answered = false;                ///< by the owner, or it never will be
    Status status;                        ///< why it cannot be used
    bool dropped = false;                 ///< by the program
    bool given_up = false;                ///< the owner may still come to know of it
    std::optional<std::uint16_t> parent;  ///< who waits for the owner's answer
    std::size_t children = 0;             ///< passed on and not accepted yet
  };
  struct PassedOn {
    ForkId parent;
    std::uint16_t to = 0;
  };
  struct Owned {
    bool created = false;
    std::map<ForkId, std::uint16_t> forks;  ///< who holds each
  };
  using Minter = std::pair<std::uint16_t, std::uint16_t>;  // owner, minter

  ForkId new_fork(std::uint16_t owner) { return {owner, self_, ++forks_minted_[owner]}; }
  void answer_use(ForkId fork, Status answer, Actions& actions);
  void forget_if_over(ForkId fork, Actions& actions);
  void on_ask(std::uint16_t from, const Reference& what, Actions& actions);
  void on_release(const Reference& what, Actions& actions);
  void free_if_over(RefId ref, Actions& actions);
  Failure gone(RefId ref) const;
  Failure asker_lost(std::uint16_t worker) const;
  void tell(std::uint16_t to, MessageKind kind, const Reference& what, Actions& actions,
            Failure why = {});

  void on_accept(const Reference& what, Actions& actions);
  void lose_holder(std::uint16_t worker, Actions& actions);
  void lose_held(std::uint16_t worker, const std::string& why, Actions& actions);
  void refuse_all(RefId ref, const Failure& why, Actions& actions);

  std::uint16_t self_;
  std::map<ForkId, Use> uses_;
  std::map<ForkId, PassedOn> passed_on_;
  std::map<RefId, Owned> owned_;
  std::map<std::uint16_t, std::uint32_t> refs_minted_, forks_minted_;  // by owner
  // Of values of this worker, by minter: what is over, so that a late message revives nothing.
  std::map<std::uint16_t, NumberSet> refs_over_, forks_over_;
  std::map<std::uint16_t, std::string> lost_;  // and why
};

}  // namespace rehearse::rpc
