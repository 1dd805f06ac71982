// harness/launch/supervisor_status.c - status of the ranks for 'bt-bench watch': a small JSON file
#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/launch/supervisor.h"

static void append_rank(const bt_rank *rank, bt_str *out)
{
    const bt_flight_board *board = rank->flight.board;
    const int64_t now_ns = bt_clock_ns();
    bt_flight_call call;
    char path[BT_FLIGHT_PATH_BYTES] = "";
    bt_str_format(out, "{\"rank\":%d,\"slot\":%d,\"process\":%d,\"joined\":%s,\"steps\":%lld",
                  rank->rank, rank->slot, (int)rank->child.process,
                  atomic_load(&board->joined) ? "true" : "false",
                  (long long)atomic_load(&board->steps));
    const int64_t beat_ns = atomic_load(&board->beat_ns);
    if (beat_ns > 0) {
        bt_str_format(out, ",\"silent_s\":%.3f", (double)(now_ns - beat_ns) / 1e9);
    }
    bt_str_format(out, ",\"waited_s\":%.3f", (double)atomic_load(&board->waited_ns) / 1e9);
    bt_flight_path(&rank->flight, path);
    bt_str_append(out, ",\"in\":");
    bt_json_string(path, out);
    if (bt_flight_read(&rank->flight, atomic_load(&board->calls), &call)) {
        BT_SCOPED(bt_str) text = {0};
        bt_flight_describe(&call, &text);
        bt_str_format(out, ",\"call_done\":%s,\"call\":",
                      atomic_load(&call.state) == BT_FLIGHT_ENTERED ? "false" : "true");
        bt_json_string(bt_str_text(&text), out);
    }
    bt_str_append(out, "}");
}

void bt_supervisor_write_status(bt_supervisor *supervisor, bool now)
{
    const int64_t now_ns = bt_clock_ns();
    BT_SCOPED(bt_str) text = {0};
    if (!supervisor->launch->status_path || (!now && now_ns - supervisor->status_ns < 1000000000)) {
        return;
    }
    supervisor->status_ns = now_ns;
    bt_str_format(&text, "{\"time_ns\":%lld,\"generation\":%lld,\"size\":%d,\"ranks\":[",
                  (long long)bt_clock_wall_ns(), (long long)supervisor->generation,
                  supervisor->size);
    for (int i = 0; i < supervisor->size; ++i) {
        bt_str_append(&text, i ? "," : "");
        append_rank(&supervisor->ranks[i], &text);
    }
    bt_str_append(&text, "]}\n");
    // Failing to write the status does not end a run.
    if (bt_str_status(&text) != BT_OK ||
        bt_file_write(supervisor->launch->status_path, bt_str_text(&text), text.length_bytes) !=
            BT_OK) {
        bt_error_clear();
    }
}
