#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/codec.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/real/socket.hpp"
#include "runtime/world/event.hpp"
#include "runtime/world/fault_engine.hpp"
#include "runtime/world/message.hpp"
#include "runtime/world/outcome.hpp"

namespace rehearse::real {

// What a worker and its launcher tell each other over the stream between them, as records with a
// length in front.

/// Where an endpoint is found.
struct BookEntry {
  std::string name;
  Address address;
  Place place;
};

/// The worker's program runs.
struct StartedRecord {};
struct CounterRecord {
  std::string name;
  std::int64_t amount = 0;
};
struct NoteRecord {
  std::string text;
};
/// A fault has begun or fired in the sender; the launcher kills these ranks, the sender's own
/// excepted.
struct FiredRecord {
  Firing::What what{};
  std::uint32_t fault = 0;
  Time at{};
  std::vector<int> kills;
};
/// An exception left a task.
struct FailedRecord {
  Failure failure;
};
/// The answer to `AskWaiting`, or what a failed worker leaves.
struct WaitingRecord {
  std::vector<WaitingTask> tasks;
};
/// The main task has returned.
struct FinishedRecord {
  std::uint64_t digest = 0;
};
/// To workers: the process of `worker` has ended.
struct DiedRecord {
  std::uint16_t worker = 0;
  LossCause cause = LossCause::unknown;
  std::string detail;
};
struct AskWaitingRecord {};

using Record =
    std::variant<JournalEntry, CounterRecord, NoteRecord, FiredRecord, FailedRecord, WaitingRecord,
                 FinishedRecord, BookEntry, DiedRecord, AskWaitingRecord, StartedRecord>;

Bytes encode(const Record& record);
/// Nothing if `body` (without its length) is no record of this version.
std::optional<Record> decode_record(std::span<const std::byte> body);

void write_address(Writer& writer, const Address& address);
Address read_address(Reader& reader);

/// One end of the stream.
class ControlStream {
 public:
  /// `socket` is a stream socket, taken over.
  explicit ControlStream(Descriptor socket) : socket_(std::move(socket)) {}

  /// False if the other end is gone.
  bool send(const Record& record);
  /// Takes in what has arrived, without waiting. False once the other end is gone.
  bool receive();
  /// The next record that is here.
  std::optional<Record> next();
  int descriptor() const { return socket_.get(); }

 private:
  Descriptor socket_;
  Bytes pending_;
  std::size_t position_ = 0;
};

}  // namespace rehearse::real
