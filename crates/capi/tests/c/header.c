/* The header alone, as strict C99 and as strict C++17: it needs nothing before it. */
#include "towpath.h"

int main(void)
{
    return tp_strerror(TP_OK) == 0;
}
