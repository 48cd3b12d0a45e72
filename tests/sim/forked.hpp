#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace rehearse {

/// A forked child that answers questions: there is one SimGrid simulation per process. It starts
/// with `begin`, whose result is the first answer, then `answer`s what is asked until this is gone.
class Forked {
 public:
  using Answer = std::function<std::string(std::string_view question)>;
  Forked(const std::function<std::string()>& begin, const Answer& answer);
  ~Forked();
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;

  const std::string& first() const { return first_; }
  std::string ask(std::string_view question);

 private:
  int socket_ = -1;
  int child_ = -1;
  std::string first_;
};

/// What `body` returns in a child. An exception there comes back as "threw: " and its text.
std::string in_child(const std::function<std::string()>& body);

}  // namespace rehearse
