#include "runtime/real/process_spec.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "runtime/base/codec.hpp"

namespace rehearse::real {
namespace {

constexpr std::uint32_t kSpecMagic = 0x53504543 ^ sizeof(Limits);
// Passed as they are: both ends are one program.
static_assert(std::is_trivially_copyable_v<Limits>);

Failure cannot_start(std::string message) {
  return {Code::cannot_start, std::move(message), {}, 0};
}

// One description of each struct serves both ways: `field` puts or gets.
class Put {
 public:
  explicit Put(Bytes& to) : writer_(to) {}
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void field(const T& value) {
    writer_.put(value);
  }
  void field(const Duration& value) { writer_.put(value.count()); }
  void field(const Time& value) { field(value.time_since_epoch()); }
  void field(const std::string& text) { writer_.put_text(text); }
  template <class T, class Each>
  void list(const std::vector<T>& values, Each each) {
    writer_.put_varint(values.size());
    for (const T& value : values) each(*this, value);
  }
  void raw(const Limits& limits) { writer_.put_bytes(std::as_bytes(std::span(&limits, 1))); }

 private:
  Writer writer_;
};

class Get {
 public:
  explicit Get(std::span<const std::byte> from) : reader_(from) {}
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void field(T& value) {
    value = reader_.get<T>();
  }
  void field(Duration& value) { value = Duration(reader_.get<std::int64_t>()); }
  void field(Time& value) { value = Time(Duration(reader_.get<std::int64_t>())); }
  void field(std::string& text) { text = reader_.get_text(); }
  template <class T, class Each>
  void list(std::vector<T>& values, Each each) {
    values.resize(reader_.get_count());
    for (T& value : values) each(*this, value);
  }
  void raw(Limits& limits) {
    const auto bytes = reader_.get_bytes();
    if (bytes.size() == sizeof limits) std::memcpy(&limits, bytes.data(), sizeof limits);
  }
  bool failed() const { return reader_.failed() || reader_.left() != 0; }

 private:
  Reader reader_;
};

constexpr auto kPlain = [](auto& codec, auto& value) { codec.field(value); };

template <class Codec, class T>
void address(Codec& codec, T& value) {
  codec.field(value.job);
  codec.field(value.generation);
  codec.field(value.worker);
  codec.field(value.endpoint);
  codec.field(value.incarnation);
}

template <class Codec, class T>
void worker_spec(Codec& codec, T& spec) {
  address(codec, spec.address);
  codec.field(spec.name);
  codec.field(spec.rank);
  codec.field(spec.world_size);
  codec.field(spec.local_rank);
  codec.field(spec.seed);
}

template <class Codec, class T>
void trigger(Codec& codec, T& when) {
  codec.field(when.anchor);
  codec.field(when.step);
  codec.field(when.phase);
  codec.field(when.event);
  codec.field(when.time);
  codec.field(when.probability);
  bool has_rank = when.rank.has_value();
  int rank = when.rank.value_or(0);
  codec.field(has_rank);
  codec.field(rank);
  if constexpr (!std::is_const_v<T>) {
    if (has_rank) when.rank = rank;
  }
  codec.field(when.nth);
}

template <class Codec, class T>
void fault(Codec& codec, T& fault) {
  codec.field(fault.id);
  codec.field(fault.kind);
  codec.field(fault.who.kind);
  codec.list(fault.who.ranks, kPlain);
  codec.field(fault.who.from);
  codec.field(fault.who.to);
  codec.field(fault.who.both);
  trigger(codec, fault.when);
  codec.field(fault.lasts);
  codec.field(fault.seen_as);
  codec.field(fault.by);
  codec.field(fault.jitter);
  codec.list(fault.messages, kPlain);
}

template <class Codec, class T>
void book_entry(Codec& codec, T& entry) {
  codec.field(entry.name);
  address(codec, entry.address);
  codec.field(entry.place.host);
  codec.field(entry.place.port);
  codec.field(entry.place.node);
  codec.field(entry.place.local);
}

template <class Codec, class T>
void all(Codec& codec, T& options) {
  worker_spec(codec, options.spec);
  codec.raw(options.limits);
  codec.list(options.book, [](auto& each, auto& entry) { book_entry(each, entry); });
  codec.list(options.faults, [](auto& each, auto& entry) { fault(each, entry); });
  codec.field(options.listener);
  codec.field(options.local_listener);
  codec.field(options.transport);
  codec.field(options.control);
  codec.field(options.counts);
  codec.field(options.start_ns);
  codec.field(options.disk_directory);
  codec.field(options.events_path);
  codec.field(options.spin);
}

}  // namespace

Bytes encode_spec(const ProcessOptions& options) {
  Bytes bytes;
  Put put(bytes);
  put.field(kSpecMagic);
  all(put, options);
  return bytes;
}

Result<ProcessOptions> decode_spec(std::span<const std::byte> bytes) {
  Get get(bytes);
  std::uint32_t magic = 0;
  get.field(magic);
  ProcessOptions options;
  if (magic == kSpecMagic) all(get, options);
  if (magic != kSpecMagic || get.failed()) {
    return cannot_start("what the launcher passed is not of this version of the program");
  }
  return options;
}

Result<Descriptor> spec_descriptor(const ProcessOptions& options) {
  Descriptor memory(::memfd_create("worker-spec", MFD_CLOEXEC));
  const Bytes bytes = encode_spec(options);
  if (!memory.valid() ||
      ::write(memory.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    return cannot_start(fmt::format("no memory for a worker's spec: {}", error_text(errno)));
  }
  return memory;
}

Result<ProcessOptions> read_spec(int descriptor) {
  const Descriptor memory(descriptor);
  Bytes bytes;
  for (off_t position = 0;;) {
    std::byte part[4096];
    const ssize_t got = ::pread(memory.get(), part, sizeof part, position);
    if (got < 0) {
      return cannot_start(
          fmt::format("cannot read descriptor {}: {}", descriptor, error_text(errno)));
    }
    if (got == 0) return decode_spec(bytes);
    bytes.insert(bytes.end(), part, part + got);
    position += got;
  }
}

}  // namespace rehearse::real
