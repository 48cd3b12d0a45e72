#include "runtime/real/control.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/base/codec.hpp"

namespace rehearse::real {
namespace {

std::int64_t nanoseconds(Time time) { return time.time_since_epoch().count(); }
Time read_time(Reader& reader) { return Time(Duration(reader.get<std::int64_t>())); }

void write(Writer& writer, const JournalEntry& entry) {
  writer.put(entry.step);
  writer.put(entry.creator);
  writer.put(entry.ordinal);
  writer.put(entry.pass);
  writer.put(entry.owner);
  writer.put(entry.leaf);
  writer.put(entry.digest);
  writer.put_bytes(entry.values);
}
void write(Writer& writer, const CounterRecord& record) {
  writer.put_text(record.name);
  writer.put(record.amount);
}
void write(Writer& writer, const NoteRecord& record) { writer.put_text(record.text); }
void write(Writer& writer, const FiredRecord& record) {
  writer.put(record.what);
  writer.put(record.fault);
  writer.put(nanoseconds(record.at));
  writer.put_varint(record.kills.size());
  for (const int rank : record.kills) writer.put(rank);
}
void write(Writer& writer, const FailedRecord& record) {
  writer.put(record.failure.code);
  writer.put_text(record.failure.message);
  writer.put_text(record.failure.worker);
  writer.put(record.failure.context);
}
void write(Writer& writer, const WaitingRecord& record) {
  writer.put_varint(record.tasks.size());
  for (const WaitingTask& task : record.tasks) {
    writer.put_text(task.worker);
    writer.put_text(task.task);
    writer.put(static_cast<std::uint8_t>(task.duty));
    writer.put_text(task.what);
    writer.put_text(task.whom);
    writer.put(nanoseconds(task.since));
    writer.put(nanoseconds(task.deadline));
  }
}
void write(Writer& writer, const FinishedRecord& record) { writer.put(record.digest); }
void write(Writer& writer, const BookEntry& record) {
  writer.put_text(record.name);
  write_address(writer, record.address);
  writer.put(record.place.host);
  writer.put(record.place.port);
}
void write(Writer& writer, const DiedRecord& record) {
  writer.put(record.worker);
  writer.put(record.cause);
  writer.put_text(record.detail);
}
void write(Writer&, const AskWaitingRecord&) {}
void write(Writer&, const StartedRecord&) {}

void read(Reader& reader, JournalEntry& entry) {
  entry.step = reader.get<std::int64_t>();
  entry.creator = reader.get<std::uint16_t>();
  entry.ordinal = reader.get<std::uint32_t>();
  entry.pass = reader.get<std::uint32_t>();
  entry.owner = reader.get<std::uint16_t>();
  entry.leaf = reader.get<std::uint32_t>();
  entry.digest = reader.get<std::uint64_t>();
  const auto values = reader.get_bytes();
  entry.values.assign(values.begin(), values.end());
}
void read(Reader& reader, CounterRecord& record) {
  record.name = reader.get_text();
  record.amount = reader.get<std::int64_t>();
}
void read(Reader& reader, NoteRecord& record) { record.text = reader.get_text(); }
void read(Reader& reader, FiredRecord& record) {
  record.what = reader.get<Firing::What>();
  record.fault = reader.get<std::uint32_t>();
  record.at = read_time(reader);
  record.kills.resize(reader.get_count(sizeof(int)));
  for (int& rank : record.kills) rank = reader.get<int>();
}
void read(Reader& reader, FailedRecord& record) {
  record.failure.code = reader.get<Code>();
  record.failure.message = reader.get_text();
  record.failure.worker = reader.get_text();
  record.failure.context = reader.get<std::int64_t>();
}
void read(Reader& reader, WaitingRecord& record) {
  record.tasks.resize(reader.get_count(20));
  for (WaitingTask& task : record.tasks) {
    task.worker = reader.get_text();
    task.task = reader.get_text();
    task.duty = static_cast<Duty>(reader.get<std::uint8_t>());
    task.what = reader.get_text();
    task.whom = reader.get_text();
    task.since = read_time(reader);
    task.deadline = read_time(reader);
  }
}
void read(Reader& reader, FinishedRecord& record) { record.digest = reader.get<std::uint64_t>(); }
void read(Reader& reader, BookEntry& record) {
  record.name = reader.get_text();
  record.address = read_address(reader);
  record.place.host = reader.get<std::uint32_t>();
  record.place.port = reader.get<std::uint16_t>();
}
void read(Reader& reader, DiedRecord& record) {
  record.worker = reader.get<std::uint16_t>();
  record.cause = reader.get<LossCause>();
  record.detail = reader.get_text();
}
void read(Reader&, AskWaitingRecord&) {}
void read(Reader&, StartedRecord&) {}

template <std::size_t I = 0>
std::optional<Record> read_kind(std::size_t kind, Reader& reader) {
  if constexpr (I < std::variant_size_v<Record>) {
    if (kind != I) return read_kind<I + 1>(kind, reader);
    std::variant_alternative_t<I, Record> record{};
    read(reader, record);
    if (reader.failed() || reader.left() != 0) return std::nullopt;
    return record;
  }
  return std::nullopt;
}

}  // namespace

void write_address(Writer& writer, const Address& address) {
  writer.put(address.job);
  writer.put(address.generation);
  writer.put(address.worker);
  writer.put(address.endpoint);
  writer.put(address.incarnation);
}

Address read_address(Reader& reader) {
  Address address;
  address.job = reader.get<std::uint64_t>();
  address.generation = reader.get<std::uint32_t>();
  address.worker = reader.get<std::uint16_t>();
  address.endpoint = reader.get<std::uint16_t>();
  address.incarnation = reader.get<std::uint32_t>();
  return address;
}

Bytes encode(const Record& record) {
  Bytes bytes;
  Writer writer(bytes);
  writer.put(std::uint32_t{0});
  writer.put(static_cast<std::uint8_t>(record.index()));
  std::visit([&writer](const auto& what) { write(writer, what); }, record);
  const auto size = static_cast<std::uint32_t>(bytes.size() - sizeof(std::uint32_t));
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes;
}

std::optional<Record> decode_record(std::span<const std::byte> body) {
  Reader reader(body);
  const auto kind = reader.get<std::uint8_t>();
  return reader.failed() ? std::nullopt : read_kind(kind, reader);
}

bool ControlStream::send(const Record& record) {
  const Bytes bytes = encode(record);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    done += static_cast<std::size_t>(sent);
  }
  return true;
}

bool ControlStream::receive() {
  std::array<std::byte, 16384> part;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    pending_.insert(pending_.end(), part.begin(), part.begin() + got);
  }
}

std::optional<Record> ControlStream::next() {
  for (;;) {
    const auto rest = std::span<const std::byte>(pending_).subspan(position_);
    std::uint32_t size = 0;
    if (rest.size() >= sizeof size) std::memcpy(&size, rest.data(), sizeof size);
    if (rest.size() < sizeof size || rest.size() - sizeof size < size) {
      pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(position_));
      position_ = 0;
      return std::nullopt;
    }
    position_ += sizeof size + size;
    if (auto record = decode_record(rest.subspan(sizeof size, size))) return record;
  }
}

}  // namespace rehearse::real
