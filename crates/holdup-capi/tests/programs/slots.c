/* Prints which lock of a table of so many the keys 0, 64, 128 ... meet. */
#include <holdup.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  holdup_table_t *table = holdup_table_create(argc == 2 ? (size_t)atol(argv[1]) : 0);
  uint64_t key;
  if (table == NULL) {
    return 1;
  }
  for (key = 0; key < 64 * 1000; key += 64) {
    printf("%zu\n", holdup_table_slot(table, key));
  }
  holdup_table_destroy(table);
  return 0;
}
