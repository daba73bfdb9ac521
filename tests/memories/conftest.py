from small_models import make as make
from small_models import make_named as make_named
from small_models import read_in as read_in
from small_models import tokens_of as tokens_of
