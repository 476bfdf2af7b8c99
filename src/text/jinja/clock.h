// The time that strftime_now sees.
#pragma once

#include <ctime>
#include <functional>

namespace sparkx::jinja {

struct LocalTime {
  std::tm time;
  int microseconds;
};

using Clock = std::function<LocalTime()>;

// The time of this machine, in its time zone.
LocalTime local_time_now();

}  // namespace sparkx::jinja
