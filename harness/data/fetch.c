// harness/data/fetch.c - all files of a corpus over a few connections
#include "harness/data/fetch.h"

#include <stdio.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/data/fetch_internal.h"

enum {
    CONNECTIONS = 4,
    MAX_CONNECTIONS = 64,
    ATTEMPTS = 6,
    STALL_SECONDS = 30,
    BACKOFF_MS = 500,
    MAX_BACKOFF_MS = 30000,
    POLL_MS = 100,
};

typedef struct job {
    bt_fetch_options options; // with defaults filled in
    bt_fetch_corpus corpus;   // owned
    CURLM *multi;             // owned
    int running;
    int unreachable;        // attempts in a row that found no server
    int64_t pause_until_ns; // no transfer begins before
    bt_progress_event event;
} job;

static bt_status fill_options(const bt_fetch_options *given, bt_fetch_options *options)
{
    *options = *given;
    options->connections = given->connections ? given->connections : CONNECTIONS;
    options->attempts = given->attempts ? given->attempts : ATTEMPTS;
    options->stall_seconds = given->stall_seconds ? given->stall_seconds : STALL_SECONDS;
    options->backoff_ms = given->backoff_ms ? given->backoff_ms : BACKOFF_MS;
    BT_FAIL_IF(options->connections < 1 || options->connections > MAX_CONNECTIONS,
               BT_STATUS_INVALID_ARGUMENT, "%d connections, allowed: 1 to %d", options->connections,
               MAX_CONNECTIONS);
    BT_FAIL_IF(options->attempts < 1 || options->stall_seconds < 1 || options->backoff_ms < 1 ||
                   options->max_files < 0,
               BT_STATUS_INVALID_ARGUMENT,
               "fetch: attempts, timeouts, waits and number of files must be above 0");
    return BT_OK;
}

static int64_t expected_bytes(const job *self, const bt_fetch_file *file)
{
    if (file->state == BT_FETCH_DONE) {
        return file->have_bytes;
    }
    if (file->size_bytes != BT_FETCH_UNKNOWN) {
        return file->size_bytes;
    }
    int64_t about = file->announced_bytes > 0 ? file->announced_bytes : self->corpus.about_bytes;
    return about > file->have_bytes ? about : file->have_bytes;
}

static void count_bytes(job *self)
{
    self->event.done_bytes = 0;
    self->event.total_bytes = 0;
    self->event.tokens = 0;
    BT_EACH(const bt_fetch_file, file, self->corpus.files, self->corpus.count) {
        self->event.done_bytes += (uint64_t)file->have_bytes;
        self->event.total_bytes += (uint64_t)expected_bytes(self, file);
        self->event.tokens += file->tokens;
    }
}

static bt_status report(job *self, const char *note)
{
    count_bytes(self);
    self->event.note = note;
    BT_FAIL_IF(!bt_progress_report(self->options.progress, &self->event), BT_STATUS_INTERRUPTED,
               "fetching was stopped; the partial download is in %s, the next call resumes it",
               self->options.out_dir);
    return BT_OK;
}

static bt_status check_space(job *self)
{
    uint64_t available = 0;
    count_bytes(self);
    uint64_t needed = self->event.total_bytes - self->event.done_bytes;
    BT_TRY(bt_disk_free(self->options.out_dir, &available));
    BT_FAIL_IF(available < needed, BT_STATUS_IO,
               "%s: not enough space: %s needs %llu MiB more, %llu MiB are free",
               self->options.out_dir, self->corpus.name, (unsigned long long)(needed >> 20) + 1,
               (unsigned long long)(available >> 20));
    return BT_OK;
}

static bt_status look(job *self)
{
    BT_SCOPED(bt_dataset) old = {0};
    bt_status status = bt_dir_make(self->options.out_dir);
    if (status == BT_OK) { // none there yet, or a part of one, is no error here
        bt_status opened = bt_dataset_open(self->options.out_dir, &old);
        status = opened == BT_STATUS_OUT_OF_MEMORY ? opened : BT_OK;
    }
    for (int64_t i = 0; i < self->corpus.count && status == BT_OK; ++i) {
        status = bt_fetch_file_look(&self->corpus.files[i], self->options.out_dir, &old);
        BT_IF_OK(status, report(self, NULL));
    }
    return status == BT_OK ? check_space(self) : status;
}

// Starts what may be started now; *waiting is how many files are not done, *pause_ms when to look
// again at the latest. While the server cannot be reached, one transfer at a time tries.
static bt_status start_some(job *self, int64_t *waiting, int *pause_ms)
{
    *waiting = 0;
    *pause_ms = POLL_MS;
    int64_t now = bt_clock_ns();
    int limit = self->unreachable > 0 ? 1 : self->options.connections;
    BT_EACH(bt_fetch_file, file, self->corpus.files, self->corpus.count) {
        *waiting += file->state != BT_FETCH_DONE;
        if (file->state != BT_FETCH_WAITING || self->running >= limit) {
            continue;
        }
        int64_t start_ns =
            file->not_before_ns > self->pause_until_ns ? file->not_before_ns : self->pause_until_ns;
        if (start_ns <= now) {
            BT_TRY(bt_fetch_file_start(file, self->multi));
            ++self->running;
        } else if ((start_ns - now) / 1000000 < *pause_ms) {
            *pause_ms = (int)((start_ns - now) / 1000000) + 1;
        }
    }
    return BT_OK;
}

static int64_t wait_ms(const job *self, int attempts)
{
    int64_t wait = self->options.backoff_ms;
    for (int i = 1; i < attempts && wait < MAX_BACKOFF_MS; ++i) {
        wait *= 2;
    }
    return wait < MAX_BACKOFF_MS ? wait : MAX_BACKOFF_MS;
}

// A server that is not there is no fault of the file: all files wait for it together, and the
// transfers that had begun beside this one do not count.
static void after_unreachable(job *self, bt_fetch_file *file, int *attempts, int64_t *wait)
{
    file->attempts = 0;
    if (bt_clock_ns() >= self->pause_until_ns) {
        ++self->unreachable;
        *wait = wait_ms(self, self->unreachable);
        self->pause_until_ns = bt_clock_ns() + *wait * 1000000;
    }
    *attempts = self->unreachable;
}

static bt_status after_attempt(job *self, bt_fetch_file *file)
{
    char note[800];
    int attempts = file->attempts;
    int64_t wait = 0;
    if (file->state == BT_FETCH_DONE) {
        self->unreachable = 0;
        (void)snprintf(note, sizeof note, "%s: %lld tokens", file->file, (long long)file->tokens);
        return report(self, note);
    }
    if (file->problem == BT_STATUS_UNAVAILABLE) {
        after_unreachable(self, file, &attempts, &wait);
    } else {
        self->unreachable = 0;
        wait = wait_ms(self, attempts);
        file->not_before_ns = bt_clock_ns() + wait * 1000000;
    }
    BT_FAIL_IF(file->fatal || attempts >= self->options.attempts, file->problem,
               "%s (attempt %d of %d); the partial download is in %s", file->message, attempts,
               self->options.attempts, self->options.out_dir);
    if (wait == 0) {
        return BT_OK; // another transfer has said it
    }
    (void)snprintf(note, sizeof note, "%s; again in %.1f s", file->message, (double)wait / 1000);
    return report(self, note);
}

static bt_status end_some(job *self)
{
    int left = 0;
    for (const CURLMsg *message = bt_curl.multi_info_read(self->multi, &left); message;
         message = bt_curl.multi_info_read(self->multi, &left)) {
        char *tag = NULL;
        CURLcode result = message->data.result;
        if (message->msg != CURLMSG_DONE ||
            bt_curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &tag) != CURLE_OK) {
            continue;
        }
        bt_fetch_file *file = (bt_fetch_file *)(void *)tag;
        bt_fetch_file_end(file, self->multi, result);
        --self->running;
        BT_TRY(after_attempt(self, file));
    }
    return BT_OK;
}

// Gives up transfers on which nothing came for too long. (libcurl's own limit is on a mean over
// seconds, and late.)
static bt_status end_stalled(job *self)
{
    int64_t limit_ns = (int64_t)self->options.stall_seconds * 1000000000;
    BT_EACH(bt_fetch_file, file, self->corpus.files, self->corpus.count) {
        if (file->state == BT_FETCH_RUNNING && bt_clock_ns() - file->last_byte_ns > limit_ns) {
            bt_fetch_file_end(file, self->multi, CURLE_OPERATION_TIMEDOUT);
            --self->running;
            BT_TRY(after_attempt(self, file));
        }
    }
    return BT_OK;
}

static bt_status transfer(job *self)
{
    int64_t waiting = 0;
    int pause_ms = 0;
    BT_TRY(start_some(self, &waiting, &pause_ms));
    while (waiting > 0) {
        int active = 0;
        BT_FAIL_IF(bt_curl.multi_perform(self->multi, &active) != CURLM_OK ||
                       bt_curl.multi_poll(self->multi, NULL, 0, pause_ms, NULL) != CURLM_OK,
                   BT_STATUS_INTERNAL, "fetch: the transfers of libcurl failed");
        BT_TRY(end_some(self));
        BT_TRY(end_stalled(self));
        BT_TRY(report(self, NULL));
        BT_TRY(start_some(self, &waiting, &pause_ms));
    }
    return BT_OK;
}

static bt_status describe(const job *self)
{
    BT_SCOPED(bt_dataset) dataset = {0};
    bt_status status = bt_mem_strdup(self->options.out_dir, &dataset.folder);
    BT_IF_OK(status, bt_mem_strdup(self->corpus.name, &dataset.name));
    dataset.vocab = self->corpus.vocab;
    dataset.train.documents = -1;
    dataset.val.documents = -1;
    for (int64_t i = 0; i < self->corpus.count && status == BT_OK; ++i) {
        const bt_fetch_file *file = &self->corpus.files[i];
        status = bt_dataset_add_shard(&dataset, file->val, file->file, file->tokens, &file->got);
    }
    BT_IF_OK(status, bt_dataset_write(&dataset, self->options.out_dir));
    return status;
}

static bt_status run(job *self)
{
    BT_TRY(look(self));
    self->multi = bt_curl.multi_init();
    BT_FAIL_IF(!self->multi, BT_STATUS_OUT_OF_MEMORY, "no memory for transfers");
    bt_status status = transfer(self);
    for (int64_t i = 0; i < self->corpus.count; ++i) {
        bt_fetch_file_stop(&self->corpus.files[i], self->multi);
    }
    (void)bt_curl.multi_cleanup(self->multi);
    return status == BT_OK ? describe(self) : status;
}

bt_status bt_data_fetch(const bt_fetch_options *options, bt_dataset *dataset)
{
    job self = {.event = {.what = "fetch"}};
    BT_TRY(fill_options(options, &self.options));
    BT_TRY(bt_curl_open());
    BT_TRY(bt_fetch_corpus_read(options->list, options->name, options->max_files, &self.corpus));
    if (bt_curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        bt_fetch_corpus_release(&self.corpus);
        return bt_error(BT_STATUS_UNAVAILABLE, "libcurl cannot be initialised");
    }
    bt_status status = run(&self);
    bt_fetch_corpus_release(&self.corpus);
    bt_curl.global_cleanup();
    if (status == BT_OK && dataset) {
        status = bt_dataset_open(options->out_dir, dataset);
    }
    return status;
}
