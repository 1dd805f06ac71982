// harness/report/picture.c - lines in a frame, with labels
#include "harness/report/picture.h"

#include "harness/text/escape.h"

void bt_picture_open(picture *self)
{
    bt_str_append(self->out, "<svg");
    if (self->file) {
        bt_str_format(self->out, " x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", FILE_LEFT,
                      FILE_TOP, FILE_W, PICTURE_H);
    }
    bt_str_format(self->out,
                  " viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
                  PICTURE_W, PICTURE_H);
}

static void write_text(bt_str *out, double x, double y, const char *anchor, const char *text)
{
    bt_html(out, "<text class=\"m\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
            FILE_LEFT + FILE_W * x, FILE_TOP + PICTURE_H * (1.0 - y), anchor, text);
}

void bt_picture_x(picture *self, double share, const char *text)
{
    if (self->file) {
        write_text(&self->x, share, -18.0 / PICTURE_H, "middle", text);
    } else {
        bt_html(&self->x, "<span style=\"left:%.2f%%\">%s</span>", 100.0 * share, text);
    }
}

void bt_picture_y(picture *self, double share, const char *text)
{
    if (self->file) {
        write_text(&self->y, -8.0 / FILE_W, share - 4.0 / PICTURE_H, "end", text);
    } else {
        bt_html(&self->y, "<span style=\"bottom:%.2f%%\">%s</span>", 100.0 * share, text);
    }
}

void bt_picture_name(picture *self, double x, double y, const char *text)
{
    if (self->file) {
        write_text(&self->inside, x, y + 4.0 / PICTURE_H, "end", text);
    } else {
        bt_html(&self->inside,
                "<span class=line-name style=\"left:%.1f%%;bottom:%.1f%%\">%s</span>", 100.0 * x,
                100.0 * y, text);
    }
}

void bt_picture_close(picture *self)
{
    bt_str *const labels[] = {&self->inside, &self->y, &self->x};
    bt_str_format(self->out,
                  self->file ? "</svg>%s%s%s\n"
                             : "</svg>%s<div class=y aria-hidden=true>%s</div><div class=x "
                               "aria-hidden=true>%s</div>",
                  bt_str_text(&self->inside), bt_str_text(&self->y), bt_str_text(&self->x));
    for (int i = 0; i < 3; i++) {
        self->out->status = self->out->status == BT_OK ? labels[i]->status : self->out->status;
        bt_str_release(labels[i]);
    }
}
