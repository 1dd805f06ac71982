// kernels/cuda/stream.cu - streams, events and captured graphs of the CUDA backend
//
// Faults of kernels and copies surface at the synchronisation points here, whose messages say so.
#include "framework/base/clock.h"
#include "kernels/cuda/cuda.h"

static bt_status synchronised(cudaError_t result, const char *what)
{
    return bt_error_context(bt_cuda_check(result, what),
                            "at a synchronisation point, from work submitted earlier");
}

static bt_status stream_create(bt_device *device, bool high_priority, bt_stream *out)
{
    int least = 0;
    int greatest = 0;
    cudaStream_t stream = NULL;
    *out = NULL;
    (void)bt_cuda_stream_of(device, NULL);
    BT_TRY(bt_cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                         "reading the stream priorities"));
    BT_TRY(bt_cuda_check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                                      high_priority ? greatest : least),
                         "creating a stream"));
    *out = (bt_stream)stream;
    return BT_OK;
}

static void stream_destroy(bt_device *device, bt_stream stream)
{
    if (stream) {
        (void)cudaStreamDestroy(bt_cuda_stream_of(device, stream));
    }
}

static bt_status stream_synchronize(bt_device *device, bt_stream stream)
{
    return synchronised(cudaStreamSynchronize(bt_cuda_stream_of(device, stream)), "stream");
}

static bt_status event_create(bt_device *device, bt_event *out)
{
    cudaEvent_t event = NULL;
    *out = NULL;
    (void)bt_cuda_stream_of(device, NULL);
    BT_TRY(bt_cuda_check(cudaEventCreate(&event), "creating an event"));
    *out = (bt_event)event;
    return BT_OK;
}

static void event_destroy(bt_device *device, bt_event event)
{
    (void)bt_cuda_stream_of(device, NULL);
    if (event) {
        (void)cudaEventDestroy((cudaEvent_t)event);
    }
}

static bt_status event_record(bt_device *device, bt_event event, bt_stream stream)
{
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    return bt_cuda_check(cudaEventRecord((cudaEvent_t)event, on), "recording an event");
}

static bt_status event_wait(bt_device *device, bt_event event, bt_stream stream)
{
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    return bt_cuda_check(cudaStreamWaitEvent(on, (cudaEvent_t)event, 0), "waiting for an event");
}

static bt_status event_synchronize(bt_device *device, bt_event event)
{
    (void)bt_cuda_stream_of(device, NULL);
    return synchronised(cudaEventSynchronize((cudaEvent_t)event), "event");
}

static bt_status event_elapsed(bt_device *device, bt_event start, bt_event stop, int64_t *time_ns)
{
    float time_ms = 0;
    *time_ns = 0;
    (void)bt_cuda_stream_of(device, NULL);
    BT_TRY(bt_cuda_check(cudaEventElapsedTime(&time_ms, (cudaEvent_t)start, (cudaEvent_t)stop),
                         "time between events"));
    *time_ns = (int64_t)((double)time_ms * 1e6 + 0.5);
    return BT_OK;
}

static bt_status cache_reset(bt_device *device)
{
    (void)bt_cuda_stream_of(device, NULL);
    return bt_cuda_check(cudaCtxResetPersistingL2Cache(), "resetting persisting lines of L2");
}

static bt_status join(bt_device *device, int64_t *waited_ns)
{
    (void)bt_cuda_stream_of(device, NULL);
    int64_t from_ns = bt_clock_ns();
    cudaError_t result = cudaDeviceSynchronize();
    *waited_ns = bt_clock_ns() - from_ns;
    return synchronised(result, "device");
}

static bt_status graph_begin(bt_device *device, bt_stream stream)
{
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    return bt_cuda_check(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal),
                         "beginning a capture");
}

static bt_status graph_end(bt_device *device, bt_stream stream, bt_graph *out)
{
    cudaGraph_t captured = NULL;
    cudaGraphExec_t executable = NULL;
    *out = NULL;
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    BT_TRY(bt_cuda_check(cudaStreamEndCapture(on, &captured), "ending a capture"));
    bt_status status =
        bt_cuda_check(cudaGraphInstantiate(&executable, captured, 0), "instantiating a graph");
    (void)cudaGraphDestroy(captured);
    *out = (bt_graph)executable;
    return status;
}

static bt_status graph_launch(bt_device *device, bt_graph graph, bt_stream stream)
{
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    return bt_cuda_check(cudaGraphLaunch((cudaGraphExec_t)graph, on), "launching a graph");
}

static void graph_destroy(bt_device *device, bt_graph graph)
{
    (void)bt_cuda_stream_of(device, NULL);
    if (graph) {
        (void)cudaGraphExecDestroy((cudaGraphExec_t)graph);
    }
}

static bool graph_capturing(bt_device *device, bt_stream stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    return cudaStreamIsCapturing(on, &status) == cudaSuccess &&
           status != cudaStreamCaptureStatusNone;
}

void bt_cuda_stream_table(bt_backend *backend)
{
    backend->stream_create = stream_create;
    backend->stream_destroy = stream_destroy;
    backend->stream_synchronize = stream_synchronize;
    backend->event_create = event_create;
    backend->event_destroy = event_destroy;
    backend->event_record = event_record;
    backend->event_wait = event_wait;
    backend->event_synchronize = event_synchronize;
    backend->event_elapsed = event_elapsed;
    backend->cache_reset = cache_reset;
    backend->join = join;
    backend->graph_begin = graph_begin;
    backend->graph_end = graph_end;
    backend->graph_launch = graph_launch;
    backend->graph_destroy = graph_destroy;
    backend->graph_capturing = graph_capturing;
}
