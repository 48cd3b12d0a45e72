#include "runtime/real/event_file.hpp"

#include <fcntl.h>

#include <fstream>
#include <iterator>

#include "runtime/base/codec.hpp"

namespace rehearse::real {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
enum class Entry : std::uint8_t { phase, event };

Bytes content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return bytes_of(text);
}

}  // namespace

EventFile::EventFile(const std::string& path) {
  if (path.empty()) return;
  file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
}

void EventFile::append(const StampedEvent& event, std::string_view phase) {
  if (!file_.valid()) return;
  Writer writer(buffer_);
  if (event.phase >= named_.size()) named_.resize(event.phase + std::size_t{1});
  if (!named_[event.phase]) {
    named_[event.phase] = true;
    writer.put(Entry::phase);
    writer.put(event.phase);
    writer.put_text(phase);
  }
  writer.put(Entry::event);
  writer.put_bytes(std::as_bytes(std::span(&event, 1)));
  if (buffer_.size() >= kBufferBytes) flush();
}

void EventFile::flush() {
  std::span<const std::byte> rest(buffer_);
  while (file_.valid() && !rest.empty()) {
    const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written <= 0) break;  // a full disk costs events, not the run
    rest = rest.subspan(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

EventFileContent read_event_file(const std::string& path) {
  const Bytes bytes = content_of(path);
  Reader reader(bytes);
  EventFileContent content;
  while (reader.left() > 0) {
    if (reader.get<Entry>() == Entry::phase) {
      const auto index = reader.get<std::uint16_t>();
      const auto phase = reader.get_text();
      if (reader.failed()) break;
      if (index >= content.phases.size()) content.phases.resize(index + std::size_t{1});
      content.phases[index] = phase;
      continue;
    }
    const auto raw = reader.get_bytes();
    StampedEvent event;
    if (raw.size() != sizeof event) break;
    std::memcpy(&event, raw.data(), sizeof event);
    content.events.push_back(event);
  }
  return content;
}

}  // namespace rehearse::real
