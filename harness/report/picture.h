// harness/report/picture.h - the axes, the frame and the labels of every chart
//
// Lines are SVG paths in a box of 1000 by 300, y downwards, stretched to the available space.
// Labels keep their size: in a page they are HTML, in a separate file SVG text.
//
// A chart sets the axes, adds its labels, opens the picture, appends its paths and closes it.
#ifndef BT_HARNESS_REPORT_PICTURE_H
#define BT_HARNESS_REPORT_PICTURE_H

#include <stdbool.h>

#include "framework/base/str.h"

// The box, and its position in a file.
enum { PICTURE_W = 1000, PICTURE_H = 300, FILE_LEFT = 80, FILE_TOP = 40, FILE_W = 850 };

typedef struct picture_axis {
    double low, high;
    bool logarithmic;
} picture_axis;

// Position of a value, as a fraction of the axis.
double bt_axis_share(const picture_axis *on, double value);

typedef struct picture {
    bt_str *out; // borrowed; paths go here between open and close
    bool file;   // a separate file; otherwise part of a page
    picture_axis x, y;
    bt_str grid, x_labels, y_labels, names; // until they are written
} picture;

// A label below the box or left of it; `line`: with a line of the grid. Lines before open.
void bt_picture_x(picture *self, double x, const char *text, bool line);
void bt_picture_y(picture *self, double y, const char *text, bool line);
// A name above a line: its text ends at x, and is `sunk` (a fraction of the height) below y.
void bt_picture_name(picture *self, double x, double y, double sunk, const char *text);
// Begins the box, with the grid.
void bt_picture_open(picture *self);
// Appends a command of a path ("M", "L") that leads to a point.
void bt_picture_to(picture *self, const char *command, double x, double y);
// Ends the box, writes the labels and releases them.
void bt_picture_close(picture *self);

#endif
