// The text that models are compared on when there is no other. Written for this project: prose, Chinese, code, data,
// arithmetic and a conversation in the models' own form (docs/model.md, Chat format), because a model that is quantized
// may lose in one of them only.

#include "sparkx/evaluation.hpp"

namespace sparkx {

std::string_view comparison_text() {
  return R"TEXT(The lighthouse at the end of the harbour wall was built in 1874, after three fishing boats had been lost in a single
winter. For almost a century somebody had to climb its ninety-one steps every evening, carry up the oil, trim the wick
and wind the clockwork that turned the lens. The last keeper, a quiet woman who collected barometers, left in 1968, when
a cable brought electricity from the mainland. Since then a lamp no larger than a thumb has done the work of the old
burner, and a small box with a green light decides when the night begins.

Visitors often ask why the tower is painted in red and white bands. By day, the guide explains, a lamp is of no use:
sailors recognize a coast by its shapes and colours. Each tower therefore has a pattern of its own, and each lamp a
rhythm. Two short flashes and a long one mean this harbour and no other, and a captain who counts the seconds between
them knows where he is, even if the rest of his instruments have failed.

How far can the light be seen? If the eye of an observer is h metres above the sea, the distance d to the horizon in
kilometres is roughly d = 3.57 * sqrt(h). The lamp stands 36 metres high, so that it reaches 3.57 * 6 = 21.4 km; a sailor
whose eyes are 4 metres above the water adds 3.57 * 2 = 7.1 km. Together they make 28.5 km, which is why the chart says
fifteen nautical miles.

海边的小镇每年秋天都会举行一次风筝节。清晨，人们带着自己做的风筝来到沙滩上，有的像鱼，有的像龙，还有一只像旧式的火车头，
后面拖着十二节车厢。孩子们跑得最快，可是他们的风筝常常飞不高；老人们站着不动，只是轻轻地放线，风筝却越升越高，最后成了
天空里的一个小点。去年的冠军是一位七十六岁的老师。有人问她有什么秘诀，她笑着说：“不要和风争，等它来。”

从数学上说，风筝的高度取决于线的长度和它与地面的夹角。如果线长一百米，夹角是三十度，那么高度就是一百乘以二分之一，等于五十米。
当然，线并不是直的，它会因为自己的重量而下垂，所以真正的高度总要小一些。

Der Zug nach Norden fährt um 7:42 Uhr ab, hält in vier Städten und kommt, wenn nichts dazwischenkommt, um 11:15 Uhr an.
Le musée est fermé le mardi, mais le jardin reste ouvert jusqu'à la tombée de la nuit. Кто рано встаёт, тому видно, как
над рекой поднимается туман.

```python
def longest_run(values):
    """Return the start and the length of the longest run of equal values."""
    best_start, best_length = 0, 0
    start = 0
    for i in range(1, len(values) + 1):
        if i == len(values) or values[i] != values[start]:
            if i - start > best_length:
                best_start, best_length = start, i - start
            start = i
    return best_start, best_length


assert longest_run([3, 3, 1, 1, 1, 2]) == (2, 3)
assert longest_run([]) == (0, 0)
```

```cpp
// Moves every element that satisfies the predicate to the front and keeps the order of both groups.
template <typename Iterator, typename Predicate>
Iterator stable_front(Iterator first, Iterator last, Predicate keep) {
  std::vector<typename std::iterator_traits<Iterator>::value_type> rest;
  Iterator out = first;
  for (Iterator at = first; at != last; ++at) {
    if (keep(*at)) {
      *out++ = std::move(*at);
    } else {
      rest.push_back(std::move(*at));
    }
  }
  std::move(rest.begin(), rest.end(), out);
  return out;
}
```

{"station": "harbour wall", "readings": [{"time": "06:00", "temperature": 11.4, "wind": {"speed": 5.2, "from": "SW"}},
{"time": "12:00", "temperature": 15.9, "wind": {"speed": 7.8, "from": "W"}}, {"time": "18:00", "temperature": 13.1,
"wind": {"speed": 4.4, "from": "NW"}}], "unit": {"temperature": "°C", "speed": "m/s"}, "complete": true, "remarks": null}

| month | visitors | of them children |
|---|---|---|
| June | 1840 | 512 |
| July | 3275 | 1196 |
| August | 3902 | 1455 |

1. Put 300 g of flour, a pinch of salt and 180 ml of warm water into a bowl.
2. Knead the dough for ten minutes, cover it with a cloth and let it rest for half an hour.
3. Roll it out as thin as a coin, cut it into strips, and dry them on a wooden board until the next morning.

If all swans in the park are white, and the bird on the pond is black, then the bird is not one of the swans in the park.
From this nobody may conclude that it is not a swan, for it may have come from somewhere else; one may only conclude that
it does not belong to those that were spoken of.

<｜start▁of▁sentence｜><|System|>
you are a helpful assistant.<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|User|>53乘以42的结果是多少？<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|><think>53乘以42：先算53乘以40，等于2120；再算53乘以2，等于106。2120加106等于2226。</think>53乘以42的结果是2226。<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|User|>What is 785 - 398?<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|><think>785 - 400 = 385, and 398 is 2 less than 400, so 385 + 2 = 387.</think>785 - 398 = 387<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|User|>Which of the two results is larger, and by how much?<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|><think>2226 is larger than 387. 2226 - 387 = 1839.</think>The first one, 2226, is larger than 387 by 1839.<｜end▁of▁sentence｜>
)TEXT";
}

}  // namespace sparkx
