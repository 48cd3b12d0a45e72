#include "runtime/autograd/protocol.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace rehearse::autograd {
namespace {

/// Writes parts one after the other.
class Out {
 public:
  explicit Out(Writer& writer) : writer_(writer) {}

  template <class... Parts>
  void operator()(const Parts&... parts) {
    (part(parts), ...);
  }

 private:
  template <class Number>
  requires(std::is_unsigned_v<Number> || std::is_enum_v<Number>) void part(Number number) {
    writer_.put_varint(static_cast<std::uint64_t>(number));
  }
  void part(const std::string& text) { writer_.put_text(text); }
  void part(const Bytes& bytes) { writer_.put_bytes(bytes); }
  void part(Duration left) {
    const auto count = static_cast<std::uint64_t>(std::max(left, Duration{}).count());
    writer_.put_varint(left == Duration::max() ? 0 : count + 1);
  }
  void part(ContextId context) {
    (*this)(creator_of(context), generation_of(context), counter_of(context));
  }
  void part(const PassId& pass) { (*this)(pass.context, pass.initiator, pass.counter); }
  void part(PairId pair) { (*this)(pair.owner(), pair.counter() << 1 | pair.shared()); }
  void part(const Settled& settled) {
    part(settled.verdict);
    if (settled.verdict != Verdict::none) part(settled.pass);
  }
  void part(const PassPath& path) { part(path.parts); }
  void part(const PassOptions& options) {
    (*this)(options.retain_graph, options.create_graph, options.rerunnable, options.detect_anomaly);
    if (options.create_graph) part(options.path);
  }
  void part(const Item& item) {
    part(item.id);
    if (!item.id.shared()) part(item.receiver);
    part(item.behind);
  }
  void part(const Crossing& crossing) { (*this)(crossing.pair, crossing.items); }
  template <class T>
  void part(const std::vector<T>& list) {
    writer_.put_varint(list.size());
    for (const T& each : list) part(each);
  }
  template <class T>
  void part(const std::optional<T>& maybe) {
    part(maybe.has_value());
    if (maybe) part(*maybe);
  }

  Writer& writer_;
};

/// Reads parts back. `ok()` is false once something was out of range or unsorted, or the bytes
/// ended; what was read is then not to be used.
class In {
 public:
  explicit In(Reader& reader) : reader_(reader) {}

  template <class... Parts>
  void operator()(Parts&... parts) {
    (part(parts), ...);
  }
  bool ok() const { return ok_ && !reader_.failed(); }

 private:
  std::uint64_t number(std::uint64_t max) {
    const std::uint64_t value = reader_.get_varint();
    ok_ = ok_ && value <= max;
    return ok_ ? value : 0;
  }
  template <class Number>
  requires std::is_unsigned_v<Number>
  void part(Number& to) { to = static_cast<Number>(number(std::numeric_limits<Number>::max())); }
  void part(Verdict& to) { to = static_cast<Verdict>(number(3)); }
  void part(Code& to) { to = static_cast<Code>(number(kCodes - 1)); }
  void part(std::string& to) { to = reader_.get_text(); }
  void part(Bytes& to) {
    const std::span<const std::byte> bytes = reader_.get_bytes();
    to.assign(bytes.begin(), bytes.end());
  }
  void part(Duration& to) {
    const std::uint64_t count = number(std::numeric_limits<Duration::rep>::max());
    to = count == 0 ? Duration::max() : Duration(static_cast<Duration::rep>(count - 1));
  }
  void part(ContextId& to) {
    std::uint16_t creator = 0, generation = 0;
    std::uint32_t counter = 0;
    (*this)(creator, generation, counter);
    to = make_context(creator, generation, counter);
  }
  void part(PassId& to) { (*this)(to.context, to.initiator, to.counter); }
  void part(PairId& to) {
    const auto owner = static_cast<WorkerId>(number(std::numeric_limits<WorkerId>::max()));
    const std::uint64_t counter = number(PairId::kCounterMax << 1 | 1);
    to = PairId(owner, counter >> 1, (counter & 1) != 0);
  }
  void part(Settled& to) {
    part(to.verdict);
    if (to.verdict != Verdict::none) part(to.pass);
  }
  void part(PassPath& to) {
    to.parts.resize(reader_.get_count(1));
    for (std::uint32_t& each : to.parts) part(each);
  }
  void part(PassOptions& to) {
    (*this)(to.retain_graph, to.create_graph, to.rerunnable, to.detect_anomaly);
    if (to.create_graph) part(to.path);
  }
  void part(Item& to) {
    part(to.id);
    if (!to.id.shared()) part(to.receiver);
    part(to.behind);
  }
  void part(Crossing& to) {
    (*this)(to.pair, to.items);
    ok_ = ok_ && !to.pair.shared();
  }
  template <class T>
  void part(std::vector<T>& to) {
    constexpr std::size_t kBytesEach = std::is_same_v<T, Item>     ? 3
                                       : std::is_same_v<T, PairId> ? 2
                                                                   : 1;
    to.resize(reader_.get_count(kBytesEach));
    for (T& each : to) part(each);
    // Lists of items have an order of their own; all others are sets.
    if constexpr (!std::is_same_v<T, Item>) {
      ok_ = ok_ && std::is_sorted(to.begin(), to.end(), std::less_equal<T>());
    }
  }
  template <class T>
  void part(std::optional<T>& to) {
    bool there = false;
    part(there);
    if (there) part(to.emplace());
  }

  Reader& reader_;
  bool ok_ = true;
};

// One list of parts per message serves both directions.
void fields(auto& wire, TurnAsk& m) { wire(m.pass); }
void fields(auto& wire, Turn& m) { wire(m.pass, m.previous); }
void fields(auto& wire, TurnEnd& m) { wire(m.pass, m.verdict); }
void fields(auto& wire, Query& m) { wire(m.pass, m.pairs); }
void fields(auto& wire, Answer& m) { wire(m.pass, m.items); }
void fields(auto& wire, Start& m) {
  wire(m.pass, m.participants, m.sends, m.options, m.remaining, m.report_arity, m.previous);
}
void fields(auto& wire, Grad& m) { wire(m.pass, m.pair, m.crossing, m.tensors); }
void fields(auto& wire, Done& m) { wire(m.pass, m.workers); }
void fields(auto& wire, Fail& m) { wire(m.pass, m.code, m.message, m.worker); }
void fields(auto& wire, Commit& m) { wire(m.pass); }
void fields(auto& wire, Abort& m) { wire(m.pass); }
void fields(auto& wire, VerdictAsk& m) { wire(m.pass, m.participant, m.lost); }
void fields(auto& wire, VerdictAnswer& m) { wire(m.pass, m.verdict, m.lost); }
void fields(auto& wire, Close& m) { wire(m.context, m.code, m.message, m.watermark, m.freed); }
void fields(auto& wire, OpenAsk& m) { wire(m.generation); }
void fields(auto& wire, OpenAnswer& m) { wire(m.generation, m.watermark, m.open); }
void fields(auto& wire, Crossing& m) { wire(m); }

template <std::size_t index = 0>
Result<PassMessage> decode_kind(MessageKind kind, std::span<const std::byte> header) {
  if constexpr (index == std::variant_size_v<PassMessage>) {
    return Failure{
        Code::corrupt, std::string(name(kind)) + " is not a message about a pass", {}, 0};
  } else {
    using Message = std::variant_alternative_t<index, PassMessage>;
    if (Message::kKind != kind) return decode_kind<index + 1>(kind, header);
    Result<Message> message = decode<Message>(header);
    if (!message.ok()) return message.failure();
    return PassMessage(std::move(message).value());
  }
}

}  // namespace

template <class Message>
void encode(const Message& message, Bytes& to) {
  Writer writer(to);
  Out out(writer);
  fields(out, const_cast<Message&>(message));  // `Out` only reads
}

template <class Message>
Result<Message> decode(std::span<const std::byte> header) {
  Reader reader(header);
  In in(reader);
  Message message;
  fields(in, message);
  if (in.ok() && reader.left() == 0) return message;
  return Failure{Code::corrupt,
                 "malformed message of " + std::to_string(header.size()) + " bytes, good up to " +
                     std::to_string(reader.position()),
                 {},
                 0};
}

#define REHEARSE_MESSAGE(Type)               \
  template void encode(const Type&, Bytes&); \
  template Result<Type> decode(std::span<const std::byte>)
REHEARSE_MESSAGE(TurnAsk);
REHEARSE_MESSAGE(Turn);
REHEARSE_MESSAGE(TurnEnd);
REHEARSE_MESSAGE(Query);
REHEARSE_MESSAGE(Answer);
REHEARSE_MESSAGE(Start);
REHEARSE_MESSAGE(Grad);
REHEARSE_MESSAGE(Done);
REHEARSE_MESSAGE(Fail);
REHEARSE_MESSAGE(Commit);
REHEARSE_MESSAGE(Abort);
REHEARSE_MESSAGE(VerdictAsk);
REHEARSE_MESSAGE(VerdictAnswer);
REHEARSE_MESSAGE(Close);
REHEARSE_MESSAGE(OpenAsk);
REHEARSE_MESSAGE(OpenAnswer);
REHEARSE_MESSAGE(Crossing);
#undef REHEARSE_MESSAGE

MessageKind kind_of(const PassMessage& message) {
  return std::visit([](const auto& each) { return each.kKind; }, message);
}

ContextId context_of(const PassMessage& message) {
  if (const auto* close = std::get_if<Close>(&message)) return close->context;
  return std::visit(
      [](const auto& each) -> ContextId {
        if constexpr (requires { each.pass; }) return each.pass.context;
        return 0;
      },
      message);
}

void encode_any(const PassMessage& message, Bytes& to) {
  std::visit([&](const auto& each) { encode(each, to); }, message);
}

Result<PassMessage> decode_any(MessageKind kind, std::span<const std::byte> header) {
  return decode_kind(kind, header);
}

void put(Writer& writer, const Crossing& crossing) {
  Out out(writer);
  out(crossing);
}

std::optional<Crossing> get_crossing(Reader& reader) {
  Crossing crossing;
  In in(reader);
  in(crossing);
  return in.ok() ? std::optional(std::move(crossing)) : std::nullopt;
}

}  // namespace rehearse::autograd
