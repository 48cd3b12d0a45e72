#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/autograd/ids.hpp"
#include "runtime/autograd/provenance.hpp"
#include "runtime/base/codec.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/time.hpp"
#include "runtime/world/message.hpp"

/// The messages of distributed autograd.
namespace rehearse::autograd {

/// How a pass ended. `none`: there is no such pass. `unknown`: it ended or will end, and who says
/// so does not know how.
enum class Verdict : std::uint8_t { none, unknown, committed, aborted };

struct Settled {
  PassId pass;
  Verdict verdict = Verdict::none;

  bool operator==(const Settled&) const = default;
};

/// What a forward message that is cut carries: its pair and what lies behind it.
struct Crossing {
  PairId pair;
  std::vector<Item> items;

  bool operator==(const Crossing&) const = default;
};

/// An initiator that is not the context's creator asks it for the turn.
struct TurnAsk {
  PassId pass;
  static constexpr MessageKind kKind = MessageKind::turn_ask;

  bool operator==(const TurnAsk&) const = default;
};
/// It is the asker's turn; `previous` is the context's previous pass.
struct Turn {
  PassId pass;
  Settled previous;
  static constexpr MessageKind kKind = MessageKind::turn;

  bool operator==(const Turn&) const = default;
};
/// The turn is given back. `none`: no pass was begun, or the question is withdrawn.
struct TurnEnd {
  PassId pass;
  Verdict verdict = Verdict::none;
  static constexpr MessageKind kKind = MessageKind::turn_end;

  bool operator==(const TurnEnd&) const = default;
};

/// Asks the owner of `pairs` what is behind them.
struct Query {
  PassId pass;
  std::vector<PairId> pairs;
  static constexpr MessageKind kKind = MessageKind::query;

  bool operator==(const Query&) const = default;
};
struct Answer {
  PassId pass;
  std::vector<Item> items;
  static constexpr MessageKind kKind = MessageKind::answer;

  bool operator==(const Answer&) const = default;
};

/// Where the code that runs a pass stands in the sequential program, as if `backward` were a call.
struct PassPath {
  std::vector<std::uint32_t> parts;  ///< empty: the caller has no place in the context

  bool operator==(const PassPath&) const = default;
};

struct PassOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool rerunnable = true;       ///< false: saved tensors go early; a failed pass closes the context
  bool detect_anomaly = false;  ///< a node that gives NaN fails the pass
  PassPath path;                ///< with `create_graph`: of what the pass records

  bool keeps_graph() const { return retain_graph || create_graph; }

  bool operator==(const PassOptions&) const = default;
};

/// Begins a pass at one participant.
struct Start {
  PassId pass;
  std::vector<WorkerId> participants;  ///< all but the initiator, sorted
  std::vector<PairId> sends;           ///< the receiver's live sends, sorted
  PassOptions options;
  Duration remaining = Duration::max();
  std::uint32_t report_arity = 0;  ///< 0: DONE goes straight to the initiator
  Settled previous;                ///< the context's previous pass: this may overtake its COMMIT
  static constexpr MessageKind kKind = MessageKind::start;

  bool operator==(const Start&) const = default;
};

/// Gradients for the send node of `pair`. `tensors` says which are defined and how the payloads are
/// to be read; it is written and read by the tensor codec. With `create_graph` the message is a
/// forward message as well, and `crossing` is what such a one carries; else it is empty.
struct Grad {
  PassId pass;
  PairId pair;
  Bytes crossing;
  Bytes tensors;
  static constexpr MessageKind kKind = MessageKind::grad;

  bool operator==(const Grad&) const = default;
};

/// `workers` (sorted) have run their parts and computed the merged values.
struct Done {
  PassId pass;
  std::vector<WorkerId> workers;
  static constexpr MessageKind kKind = MessageKind::done;

  bool operator==(const Done&) const = default;
};
struct Fail {
  PassId pass;
  Code code = Code::pass_failed;
  std::string message;
  std::string worker;
  static constexpr MessageKind kKind = MessageKind::fail;

  bool operator==(const Fail&) const = default;
};
struct Commit {
  PassId pass;
  static constexpr MessageKind kKind = MessageKind::commit;

  bool operator==(const Commit&) const = default;
};
struct Abort {
  PassId pass;
  static constexpr MessageKind kKind = MessageKind::abort;

  bool operator==(const Abort&) const = default;
};

/// A worker that reported and then lost the initiator asks the others how the pass ended. The
/// answer waits until the asked worker knows, or has seen the loss of all of `lost`.
struct VerdictAsk {
  PassId pass;
  bool participant = false;    ///< the asked worker is one
  std::vector<WorkerId> lost;  ///< of the initiator and participants, as the asker knows; sorted
  static constexpr MessageKind kKind = MessageKind::verdict_ask;

  bool operator==(const VerdictAsk&) const = default;
};
struct VerdictAnswer {
  PassId pass;
  Verdict verdict = Verdict::unknown;
  std::vector<WorkerId> lost;  ///< as in the question
  static constexpr MessageKind kKind = MessageKind::verdict;

  bool operator==(const VerdictAnswer&) const = default;
};

/// The context is closed. `ok`: its creator is done with it. Else why it cannot go on. Or the
/// answer: `freed` has contexts of whose end the receiver had told the sender.
struct Close {
  ContextId context = 0;
  Code code = Code::ok;
  std::string message{};
  std::uint32_t watermark = 0;     ///< all contexts of this creator with a lower counter are closed
  std::vector<ContextId> freed{};  ///< at the sender, and at all that it told in turn; sorted
  static constexpr MessageKind kKind = MessageKind::close;

  bool operator==(const Close&) const = default;
};
/// Asks a creator which of its contexts of one generation are still open.
struct OpenAsk {
  std::uint16_t generation = 0;
  static constexpr MessageKind kKind = MessageKind::open_ask;

  bool operator==(const OpenAsk&) const = default;
};
/// Contexts with a counter below `watermark` are closed, except those in `open` (sorted).
struct OpenAnswer {
  std::uint16_t generation = 0;
  std::uint32_t watermark = 0;
  std::vector<std::uint32_t> open;
  static constexpr MessageKind kKind = MessageKind::open_answer;

  bool operator==(const OpenAnswer&) const = default;
};

/// Appends `message`, any of the structs above, to a header.
template <class Message>
void encode(const Message& message, Bytes& to);
/// Reads it back. Fails with `corrupt` if the bytes end too early or too late, or something is out
/// of range or unsorted.
template <class Message>
Result<Message> decode(std::span<const std::byte> header);

/// What `PassCore` speaks. All of it travels on the control lane.
using PassMessage = std::variant<TurnAsk, Turn, TurnEnd, Start, Done, Fail, Commit, Abort,
                                 VerdictAsk, VerdictAnswer, Close>;

MessageKind kind_of(const PassMessage& message);
ContextId context_of(const PassMessage& message);
void encode_any(const PassMessage& message, Bytes& to);
/// Fails with `corrupt`, also for a kind that is not of `PassMessage`.
Result<PassMessage> decode_any(MessageKind kind, std::span<const std::byte> header);

/// A crossing as a part of another message's header.
void put(Writer& writer, const Crossing& crossing);
/// Empty if `reader` fails, or for what `put` does not write.
std::optional<Crossing> get_crossing(Reader& reader);

}  // namespace rehearse::autograd
